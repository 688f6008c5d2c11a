"""Measure the page of a long run: its size, and the time to open it in a browser: `python -m benchmarks.view`.

With ``--live 10000 100000`` it opens the live pages of ``stackmem ui`` instead; with ``--live --run DIR``, that of an
existing run.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks._folder import own_folder
from stackmem.review.report.page import write_page
from tests.review.report.conftest import FLAGS, chromium
from tests.review.report.runs import long_run

STRATEGIES = ("stackheap", "stackheap:index=system", "full")


def seconds_to_open(browser: Browser, page_file: Path, times: int) -> list[float]:
    """Return the sorted times from the start of the navigation until the page is usable."""
    found = []
    for _ in range(times):
        page = browser.new_page()
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        found.append(page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000)
        page.close()
    return sorted(found)


def live(browser: Browser, run: Path) -> str:
    """Return a row: time until the page answers, time until the whole run is in it, and related figures."""
    command = (sys.executable, "-m", "stackmem", "ui", str(run.parent))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        begun = time.perf_counter()
        page.goto(f"{address}run?id={_place(page, address)}", timeout=120_000)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
        opened = page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000
        first = page.locator(".tiles div").first.inner_text().replace("\n", " ")
        expect(page.locator(".pill")).not_to_have_text("reading", timeout=1_200_000)
        filled = time.perf_counter() - begun
        keys = []
        for _ in range(5):
            asked = time.perf_counter()
            page.keyboard.press("ArrowRight")
            page.evaluate("new Promise(requestAnimationFrame)")
            keys.append(time.perf_counter() - asked)
        page.close()
        server.terminate()
    return f"| {opened:.1f} s | {first} | {filled:.0f} s | {sorted(keys)[2] * 1000:.0f} ms |"


def _place(page: Page, address: str) -> str:
    """Return the name of the only run, once the list shows it."""
    page.goto(address)
    page.wait_for_selector("tbody a", timeout=120_000)
    return (page.get_attribute("tbody a", "href") or "").partition("id=")[2]


def measure_live(given: argparse.Namespace) -> None:
    print("| trace | page answers | with | all of it read | a key then |")
    print("|---|---:|---:|---:|---:|")
    with own_folder() as place, sync_playwright() as driver:
        runs = [Path(given.run)] if given.run else []
        runs += [long_run(Path(place, f"of-{steps}", "run"), steps) for steps in given.live]
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        for run in runs:
            size = (run / "trace.jsonl").stat().st_size / 1e6
            print(f"| {run.name}, {size:.0f} MB {live(browser, run)}", flush=True)
        browser.close()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"processor time of server and browser: {spent.ru_utime + spent.ru_stime:.0f} s; load {os.getloadavg()[0]:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", type=int, nargs="*", metavar="STEPS")
    parser.add_argument("--run", metavar="DIR")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5, help="how many times to open each page")
    given = parser.parse_args()
    if given.live is not None:
        measure_live(given)
        return
    print(f"{given.steps:,} steps; opened {given.times} times")
    print("| strategy | trace, gzip -9 | page | of 1.5 x trace + 300 kB | written in | opened in: least, median |")
    print("|---|---|---|---|---|---|")
    with own_folder() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        for strategy in STRATEGIES:
            run = long_run(Path(place, strategy.replace(":", "-")), given.steps, strategy)
            trace = len(gzip.compress((run / "trace.jsonl").read_bytes(), 9))
            started = time.perf_counter()
            page = write_page([run], None)
            written, size = time.perf_counter() - started, page.stat().st_size
            opened = seconds_to_open(browser, page, given.times)
            share = size / (1.5 * trace + 300_000)
            print(
                f"| `{strategy}` | {trace / 1e6:.2f} MB | {size / 1e6:.2f} MB | {share:.0%} | {written:.1f} s "
                f"| {opened[0]:.2f} s, {opened[given.times // 2]:.2f} s |"
            )
        browser.close()


if __name__ == "__main__":
    main()
