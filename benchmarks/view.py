"""How large the page of a long run is, and how long a browser takes to open it: `python -m benchmarks.view`."""

from __future__ import annotations

import gzip
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from stackmem.report.page import write_page
from tests.report.conftest import FLAGS, chromium
from tests.report.runs import long_run

STEPS = 10_000
STRATEGIES = ("stackheap", "stackheap:index=system", "full")
OPENED = 5


def seconds_to_open(browser: Browser, page_file: Path) -> list[float]:
    """From the start of the navigation until the page can be used, sorted."""
    found = []
    for _ in range(OPENED):
        page = browser.new_page()
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        found.append(page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000)
        page.close()
    return sorted(found)


def main() -> None:
    print(f"{STEPS:,} steps; opened {OPENED} times")
    print("| strategy | trace, gzip -9 | page | of 1.5 x trace + 300 kB | written in | opened in: least, median |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        for strategy in STRATEGIES:
            run = long_run(Path(place, strategy.replace(":", "-")), STEPS, strategy)
            trace = len(gzip.compress((run / "trace.jsonl").read_bytes(), 9))
            started = time.perf_counter()
            page = write_page([run], None)
            written, size = time.perf_counter() - started, page.stat().st_size
            opened = seconds_to_open(browser, page)
            share = size / (1.5 * trace + 300_000)
            print(
                f"| `{strategy}` | {trace / 1e6:.2f} MB | {size / 1e6:.2f} MB | {share:.0%} | {written:.1f} s "
                f"| {opened[0]:.2f} s, {opened[OPENED // 2]:.2f} s |"
            )
        browser.close()


if __name__ == "__main__":
    main()
