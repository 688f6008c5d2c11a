"""Measure what the bench runner adds to a trial: python benchmarks/bench.py [--trials 100] [--dask]

Trials run in memory with 10 steps of necessary work: first the run alone, then measured and billed as a row. The time
between two trials is measured for each engine. Memory is that of a process that runs all trials. ``--lengths`` shows
the processor time of measure trials of 60 and 1,000 steps instead, with worlds generated in advance.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import time
from itertools import pairwise
from pathlib import Path

from benchmarks._folder import own_folder
from stackmem.lab.bench import preload
from stackmem.lab.bench.bench import EngineName, Means, run_bench
from stackmem.lab.bench.plan import BenchPlan, trials
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.results import read_results
from stackmem.lab.bench.suite import SuiteRequest
from stackmem.lab.bench.trial import Job, run_trial
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve

Row = tuple[str, str]


def planned(count: int, steps: int = 10) -> BenchPlan:
    asked = SuiteRequest(
        worlds=("env_trap", "ledger"), strategies=("full", "stackheap"), models=("sim/bounded-reader",),
        horizons=(steps,), trials=max(1, count // 4), settings={"isolation": "memory", "fsync": "none"},
        keep_traces="none",
    )  # fmt: skip
    return make_plan(asked, Path.cwd(), os.environ)


def jobs(plan: BenchPlan, folder: Path) -> list[Job]:
    return [
        Job(trial, str(folder), plan.price, plan.latency_seconds, "none", plugins=plan.plugins)
        for trial in trials(plan)
    ]


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def alone(work: list[Job], folder: Path) -> float:
    """Return the median ms of a run without measuring. The tasks must exist."""
    times = []
    for job in work:
        trial = job.trial
        task = folder / "tasks" / f"{trial.subject.label}-s{trial.seed}"
        flags = {**trial.settings, "model": trial.model, "strategy": trial.variant.strategy}
        begun = time.perf_counter()
        places = {"runs_dir": str(folder / "alone"), "sandbox_dir": str(folder / "alone-work")}
        solve(prepare(str(task), None, flags | places, {}, folder), {})
        times.append(time.perf_counter() - begun)
    shutil.rmtree(folder / "alone")
    return statistics.median(times) * 1000


def as_rows(work: list[Job]) -> tuple[float, float, float]:
    """Return the median ms from trial to row, and the process's memory after a quarter of the trials and after all."""
    times, early = [], 0.0
    for number, job in enumerate(work):
        begun = time.perf_counter()
        row = run_trial(job)
        times.append(time.perf_counter() - begun)
        if row["outcome"] == "error":
            raise SystemExit(row["error"])
        if number == len(work) // 4:
            early = resident_mib()
    return statistics.median(times) * 1000, early, resident_mib()


def between(plan: BenchPlan, folder: Path, engine: EngineName) -> float:
    """Return the median ms from the end of one trial to the start of the next, in a bench with one process."""
    run_bench(plan, folder, Means(1, engine))
    rows = sorted(read_results(folder), key=lambda row: row["started"])
    gaps = [after["started"] - row["finished"] for row, after in pairwise(rows)]
    return statistics.median(gaps) * 1000


def measured(count: int, folder: Path, *, dask: bool) -> list[Row]:
    plan = planned(count)
    work = jobs(plan, folder / "inside")
    for job in work:
        run_trial(job)  # generates the tasks, and warms up
    bare = alone(work, folder / "inside")
    row, early, late = as_rows(work)
    rows = [
        ("the run alone, median", f"{bare:.1f} ms"),
        ("measured and billed as a row, median", f"{row:.1f} ms"),
        (f"memory after {len(work) // 4:,} trials and after {len(work):,}", f"{early:.1f}, {late:.1f} MiB"),
        ("local engine, between two trials, median", f"{between(plan, folder / 'local', 'local'):.1f} ms"),
    ]
    if dask:
        rows.append(("dask, between two trials, median", f"{between(plan, folder / 'dask', 'dask'):.1f} ms"))
    return rows


def lengths(folder: Path) -> list[Row]:
    """Return the processor time of trials and of actual steps."""
    rows, each = [], []
    for horizon, rounds in ((60, 8), (1_000, 1)):
        work = jobs(planned(4, horizon), folder / str(horizon))
        steps = sum(run_trial(job)["steps"] for job in work)  # generates the tasks, and warms up
        begun = time.process_time()
        for job in work * rounds:
            run_trial(job)
        used = (time.process_time() - begun) / rounds
        each.append(used / steps)
        rows.append((f"{horizon:,} steps: trials per second of processor time", f"{len(work) / used:.2f}"))
        rows.append((f"{horizon:,} steps: time per step", f"{each[-1] * 1000:.2f} ms"))
    return [*rows, ("time per step at 1,000 over that at 60", f"{each[1] / each[0]:.2f}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--dask", action="store_true", help="also measure the engine for clusters")
    parser.add_argument("--lengths", action="store_true", help="measure trials of 60 and 1,000 steps instead")
    asked = parser.parse_args()
    assert preload.trial  # imported in advance, as for every worker
    with own_folder() as folder:
        found = lengths(folder) if asked.lengths else measured(max(8, asked.trials), folder, dask=asked.dask)
        for what, figure in found:
            print(f"{what:<54}{figure}")


if __name__ == "__main__":
    main()
