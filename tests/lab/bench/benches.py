"""Small benches for tests: tasks whose demo plays the model, and a bench's results without time-dependent values."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stackmem.lab.bench.bench import Came, Means, run_bench
from stackmem.lab.bench.plan import BenchPlan, trials
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.results import TIMES, read_results
from stackmem.lab.bench.suite import SuiteRequest
from tests.stage import Reply, Stage, command, eventually, pop

FAST = {"fsync": "none"}


def small_tasks(stage: Stage, *names: str, replies: tuple[Reply, ...] = ()) -> tuple[str, ...]:
    """Create tasks that take two steps to solve."""
    played = replies or (command("echo looked"), pop())
    return tuple(str(stage.task(*played, name=name)) for name in names)


def planned(*tasks: str, **more: Any) -> BenchPlan:
    given = {"strategies": ("full", "stackheap"), "models": ("demo",), "settings": FAST} | more
    return make_plan(SuiteRequest(tasks=tasks, **given), Path.cwd(), os.environ)


def benched(plan: BenchPlan, folder: Path, jobs: int = 2, **more: Any) -> Came:
    return run_bench(plan, folder, Means(jobs, **more))


def timeless(folder: Path) -> list[dict[str, Any]]:
    """Return the results without the columns in which two runs of one plan may differ."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in read_results(folder)]


SLEEP = "600.4519"
"""A sleep duration that no other process on the machine uses."""


def endless(stage: Stage) -> str:
    return str(stage.task(command(f"sleep {SLEEP}"), pop(), name="endless"))


def asleep() -> list[int]:
    """Return the processes of an endless trial's command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes() == f"sleep\0{SLEEP}\0".encode():
                found.append(int(process.name))
    return found


def endless_trial(plan: BenchPlan) -> str:
    return next(trial.id for trial in trials(plan) if trial.subject.task == "endless")


class Killer:
    """An announcer that kills the worker of a trial each time its command sleeps."""

    def __init__(self, folder: Path, trial: str) -> None:
        self._runs = folder / "runs" / trial
        self.killed: set[Path] = set()

    def __call__(self, told: object) -> None:
        for lock in self._runs.glob("*/trace.lock"):
            if lock.parent not in self.killed and asleep():
                self.killed.add(lock.parent)
                os.kill(msgspec.json.decode(lock.read_bytes())["pid"], signal.SIGKILL)
                eventually(lambda: not asleep(), 5)
