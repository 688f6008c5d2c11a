"""Check whether this tree is slower than another: python benchmarks/pairs.py ../before [--pairs 12] [--only sexp]

Runs parts of the other benchmarks in separate processes, alternating between the two trees, and compares processor
time, which depends less on other load than wall time. The other tree is a clone at the earlier commit and runs its own
benchmarks with this Python. For each part it prints the median of the pairs' ratios, new over old, and bounds that
contain that median with at least 95 % confidence. It gives no verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from scipy.stats import binom

from benchmarks._folder import own_folder

ROOT = Path(__file__).resolve().parents[1]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this process and of children that it waited for."""
    begun = _used()
    work()
    return _used() - begun


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def overhead(folder: Path, divisor: int) -> dict[str, float]:
    from benchmarks.overhead import play

    play("stackheap", 300 // divisor, folder, sync=False)
    return {
        "a step of stackheap": cpu_seconds(lambda: play("stackheap", 1_501 // divisor, folder, sync=False)),
        "a step of full": cpu_seconds(lambda: play("full", 1_501 // divisor, folder, sync=False)),
        "a step of stackheap, with fsync": cpu_seconds(lambda: play("stackheap", 501 // divisor, folder, sync=True)),
    }


def trace(folder: Path, divisor: int) -> dict[str, float]:
    from benchmarks.trace import TraceReader, events_of, fold, make, verify

    path = folder / "trace.jsonl"
    make(path, 2_000 // divisor, framed=True)
    events = events_of(path)
    works: dict[str, Callable[[], object]] = {
        "fold": lambda: fold(events),
        "read and check": lambda: sum(1 for _ in TraceReader(path)),
        "replay": lambda: verify(TraceReader(path)),
    }
    return {name: min(cpu_seconds(work) for _ in range(3)) for name, work in works.items()}


def apl(folder: Path, divisor: int) -> dict[str, float]:
    from benchmarks.apl import IN_MEMORY, OUTSIDE, measure

    return {
        "3,000 items in memory": cpu_seconds(lambda: measure(IN_MEMORY, 3_000 // divisor, folder / "inside")),
        "300 items with an outside effect": cpu_seconds(lambda: measure(OUTSIDE, 300 // divisor, folder / "outside")),
    }


def sexp(folder: Path, divisor: int) -> dict[str, float]:
    from benchmarks.sexp import PROGRAMS, ours

    return {name: min(ours(text)[0] for _ in range(max(1, 20 // divisor))) for name, text in PROGRAMS.items()}


def loop_agent(folder: Path, divisor: int) -> dict[str, float]:
    from benchmarks.loop_agent import measure

    return {"1,000 items, 16 at a time": cpu_seconds(lambda: measure(1_000 // divisor, 1_000, folder / "loop"))}


PARTS = {"overhead": overhead, "trace": trace, "apl": apl, "sexp": sexp, "loop_agent": loop_agent}


def once(tree: Path, part: str, divisor: int) -> dict[str, float]:
    """Run one part in a separate process with the package of ``tree``."""
    environ = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, str(Path(__file__).resolve()), str(tree), "--part", part, "--divisor", str(divisor)]
    done = subprocess.run(command, cwd=tree, env=environ, stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def bounds(ratios: list[float]) -> tuple[float, float]:
    """Return two of the ratios that enclose the true median with at least 95 %, by their ranks alone."""
    ordered = sorted(ratios)
    left_out = max(0, int(binom.ppf(0.025, len(ordered), 0.5)) - 1)
    return ordered[left_out], ordered[-1 - left_out]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--divisor", type=int, default=1, help="make each part smaller, to check that it works")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        sys.path.insert(0, str(asked.before))
        with own_folder() as folder:
            print(json.dumps(PARTS[asked.part](folder, asked.divisor)))
        return
    before = asked.before.resolve()
    for part in asked.only or PARTS:
        ratios: dict[str, list[float]] = {}
        for number in range(asked.pairs):
            trees = (before, ROOT) if number % 2 else (ROOT, before)
            figures = {tree: once(tree, part, asked.divisor) for tree in trees}
            for name, new in figures[ROOT].items():
                ratios.setdefault(name, []).append(new / figures[before][name])
        for name, each in ratios.items():
            least, most = bounds(each)
            print(f"{part}: {name:<36} x{statistics.median(each):.3f}  {least:.3f} to {most:.3f}", flush=True)


if __name__ == "__main__":
    main()
