"""Small benches for tests: tasks whose demo plays the model, and what a bench came to without what differs in time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stackmem.bench.bench import Came, Means, run_bench
from stackmem.bench.plan import Plan
from stackmem.bench.planning import make_plan
from stackmem.bench.results import TIMES, read_results
from stackmem.bench.suite import Asked
from tests.stage import Reply, Stage, command, pop

FAST = {"fsync": "none"}


def small_tasks(stage: Stage, *names: str, replies: tuple[Reply, ...] = ()) -> tuple[str, ...]:
    """Tasks that are solved in two steps."""
    played = replies or (command("echo looked"), pop())
    return tuple(str(stage.task(*played, name=name)) for name in names)


def planned(*tasks: str, **more: Any) -> Plan:
    given = {"strategies": ("full", "stackheap"), "models": ("demo",), "settings": FAST} | more
    return make_plan(Asked(tasks=tasks, **given), Path.cwd(), os.environ)


def benched(plan: Plan, folder: Path, jobs: int = 2, **more: Any) -> Came:
    return run_bench(plan, folder, Means(jobs, **more))


def timeless(folder: Path) -> list[dict[str, Any]]:
    """The results without the columns in which two runs of one plan may differ."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in read_results(folder)]
