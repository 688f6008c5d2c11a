"""Measure how long the list of 10,000 runs takes: `python -m benchmarks.run_list [RUNS [FOLDER]] [--times 5]`.

The server is a new process. The folders of the runs are in the file system's cache. With FOLDER, the runs are created
there, and reused if they exist.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from benchmarks._folder import own_folder
from stackmem.core.messages import Usage
from stackmem.run.result import RunResult, write_result
from stackmem.run.run_folder import RESULT, TRACE
from tests.review.report.conftest import FLAGS, chromium
from tests.review.report.runs import long_run

RUNS = 10_000
KILLED = 100  # one of this many has no result
TASKS = ("calculator", "ledger_rounding", "flaky_queue", "env_trap-60-s1")
STRATEGIES = ("stackheap", "full", "adaptive", "rolling_summary")
OUTCOMES = ("solved", "solved", "solved", "unsolved", "limit:steps", "model_error")


def many_runs(folder: Path, count: int) -> Path:
    """Create ``count`` runs of twelve steps, a minute apart, each with a trace and a result."""
    trace = long_run(folder.parent / "one", 12) / TRACE
    for number in range(count):
        task, strategy = TASKS[number % 4], STRATEGIES[number // 4 % 4]
        utc = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        run = folder / f"{utc:%Y%m%dT%H%M%SZ}-{task}-{strategy}-{number:06x}"
        run.mkdir(parents=True)
        shutil.copyfile(trace, run / TRACE)
        if number % KILLED == 0:
            continue
        outcome = OUTCOMES[number % 6]
        result = RunResult(
            run.name, str(run), task, "claude-sonnet-4-5", strategy, "popped", outcome, 12 + number % 50, number % 7,
            Usage(uncached=900, cache_read=40_000 + number, cache_write_5m=9_000, output=3_000), number % 90 / 100,
            30.0 + number % 400, "bubblewrap", "All tests pass. " * 12, f"/home/somebody/work/{run.name}/workspace",
            changed=("src/one.py", "tests/test_one.py"), chunks=("env", "spec"), records=45, digest="5" * 64,
        )  # fmt: skip
        write_result(result, run / RESULT)
    return folder


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a new server and yield its address once it is printed."""
    command = (sys.executable, "-m", "stackmem", "ui", str(folder))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def seconds_of(page: Page, address: str, count: int) -> tuple[float, float]:
    """Return the seconds until rows are visible, and until the complete list is drawn."""
    begun = time.perf_counter()
    drawn = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    page.goto(address, wait_until="commit")
    page.wait_for_selector("tbody tr")
    page.evaluate(drawn)
    first = time.perf_counter() - begun
    expect(page.get_by_role("status")).to_have_text(f"{count:,} runs", timeout=60_000)
    page.evaluate(drawn)
    whole = time.perf_counter() - begun
    page.goto("about:blank")
    return first, whole


def median(found: list[float]) -> str:
    return f"{min(found):.2f}, {sorted(found)[len(found) // 2]:.2f}, {max(found):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=RUNS)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--times", type=int, default=5, help="repetitions of each measurement")
    given = parser.parse_args()
    count: int = given.runs
    started: list[float] = []
    cold: list[tuple[float, float]] = []
    later: list[tuple[float, float]] = []
    with own_folder() as place, sync_playwright() as driver:
        folder: Path = given.folder or Path(place, "runs")
        if not folder.exists():
            many_runs(folder, count)
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        for _ in range(given.times):
            begun = time.perf_counter()
            with server(folder) as address:
                started.append(time.perf_counter() - begun)
                cold.append(seconds_of(page, address, count))
                time.sleep(1)
                later.append(seconds_of(page, address, count))
        browser.close()
    print(f"{count:,} runs; load {os.getloadavg()[0]:.1f}\n")
    print(f"| seconds, least, median, most of {given.times} | |\n|---|---:|")
    for name, found in (
        ("from the command until the address is printed", started),
        ("a new server: from the request until rows are shown", [one for one, _ in cold]),
        ("a new server: until the list is complete", [one for _, one in cold]),
        ("later: from the request until rows are shown", [one for one, _ in later]),
        ("later: until the list is complete", [one for _, one in later]),
    ):
        print(f"| {name} | {median(found)} |")


if __name__ == "__main__":
    main()
