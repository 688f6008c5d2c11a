"""Measure the page of a long run: its size, the time to open it, and the time of a step: `python -m benchmarks.view`.

Times are those of the clock. Processor times are those of the page's main thread, which other work on the machine does
not change much. A step is the time from the key until the memory picture is laid out; its processor time includes the
rest of the page and the drawing.

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
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks._folder import own_folder
from stackmem.review.report.page import write_page
from tests.review.report.conftest import FLAGS, chromium
from tests.review.report.runs import long_run

STRATEGIES = ("stackheap", "stackheap:index=system", "full")


STEPS_TAKEN = 40
TAKE_STEPS = """async (many) => {
    const times = [];
    for (let number = 0; number < many; number += 1) {
        const begun = performance.now();
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
        document.body.getBoundingClientRect();
        times.push(performance.now() - begun);
        await new Promise(requestAnimationFrame);
        await new Promise((resolve) => setTimeout(resolve, 40));
    }
    return times.sort((one, other) => one - other)[many >> 1];
}"""


@dataclass(frozen=True)
class Opening:
    """One opening of a page, and steps in its middle."""

    seconds: float  # from the start of the navigation until the page is usable
    busy_seconds: float
    step_millis: float  # the median
    step_busy_millis: float  # the mean


def open_page(browser: Browser, page_file: Path, steps: int) -> Opening:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    thread = page.context.new_cdp_session(page)
    thread.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        metrics = thread.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    page.goto(f"{page_file.as_uri()}#step={steps // 2}")
    page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
    ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000
    to_ready = busy()
    page.wait_for_timeout(500)
    before = busy()
    millis = page.evaluate(TAKE_STEPS, STEPS_TAKEN)
    step_busy = (busy() - before) / STEPS_TAKEN * 1000
    page.close()
    return Opening(ready, to_ready, millis, step_busy)


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
    print("| strategy | page | of 1.5 x trace + 300 kB | written in | opened | processor | a step | processor |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with own_folder() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        for strategy in STRATEGIES:
            run = long_run(Path(place, strategy.replace(":", "-")), given.steps, strategy)
            trace = len(gzip.compress((run / "trace.jsonl").read_bytes(), 9))
            started = time.perf_counter()
            page = write_page([run], None)
            written, size = time.perf_counter() - started, page.stat().st_size
            share = size / (1.5 * trace + 300_000)
            openings = [open_page(browser, page, given.steps) for _ in range(given.times)]
            figures = [median(getattr(opening, name) for opening in openings) for name in Opening.__dataclass_fields__]
            print(
                f"| `{strategy}` | {size / 1e6:.2f} MB | {share:.0%} | {written:.1f} s "
                "| {:.2f} s | {:.2f} s | {:.1f} ms | {:.1f} ms |".format(*figures),
                flush=True,
            )
        browser.close()
    print(f"medians; load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
