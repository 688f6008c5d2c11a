"""Run a bench from its plan to its results."""

from __future__ import annotations

import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Literal

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.version import VERSION
from stackmem.models.local_servers import is_known
from stackmem.models.registry import is_free
from stackmem.run.plugins.loading import refuse_unlike_plugins

from .engine import Engine
from .estimate import CostEstimates, plan_usd
from .ledger import Ledger, latest_rows, read_rows
from .plan import BenchPlan, trials
from .planning import model_prices
from .results import write_results
from .runner import BenchProgress, Bounds, Ending, Pace, Runner
from .trial import MAKING, RUNS, WORK, Row, remove_leftover

EngineName = Literal["local", "dask"]


class Means(Struct, frozen=True):
    """How a bench is run. Apart from timings, these options do not change the results."""

    jobs: int
    engine: EngineName = "local"
    scheduler: str | None = None  # address of a Dask scheduler; None starts a local one
    concurrency: dict[str, int] = {}  # the most concurrent trials per provider
    total_usd: float | None = None  # limit for the whole bench, including what its ledger already records
    trial_seconds: float | None = None  # time limit per trial, after which it is killed; None means no limit
    retry_errors: bool = False  # whether to repeat trials that ended with an error


class Came(Struct, frozen=True):
    """The result of a call to ``run_bench``."""

    ending: Ending
    rows: list[Row]  # one per finished trial of the plan, including earlier calls; only the columns in ``ledger.KEPT``
    fresh: int  # the number of trials that this call finished
    paid_usd: float  # for every trial ever run, including trials that were repeated
    total: int
    results: Path
    signal: int = 0  # the signal that ended the bench, otherwise 0


def run_bench(
    plan: BenchPlan,
    folder: Path,
    means: Means,
    environ: Mapping[str, str] = os.environ,
    begin: Callable[[BenchPlan, Mapping[str, Row]], None] | None = None,
    tell: Callable[[BenchProgress], None] | None = None,  # called for every row, and from time to time without one
) -> Came:
    """Run every trial of the plan that has no row in the folder yet, and write the results.

    ``begin`` is called once before the first trial, with the existing rows.

    Raises:
        UsageError: The folder or the engine cannot be used, the budget cannot be enforced, or a plug-in has changed.
        TraceError: The ledger cannot be written, or another process runs this bench.
        WorkspaceError: The scheduler is gone.
    """
    folder = folder.absolute()
    refuse_unlike_plugins(plan.plugins)
    prices = model_prices(plan, environ)
    if means.total_usd is not None:
        unknown = [model for model, price in prices.items() if not is_known(price) and not is_free(model)]
        if unknown:
            raise UsageError(
                f"--total-usd needs prices, and the price of {unknown[0]} is unknown; leave --total-usd out"
            )
    bounds = Bounds(Pace(means.concurrency), prices, means.total_usd)
    with Ledger(folder, plan, without_errors=means.retry_errors) as ledger, _signals() as came:
        before = len(ledger.rows)
        if begin is not None:
            begin(plan, ledger.rows)
        ending: Ending = "done"
        try:
            if any(trial.id not in ledger.rows for trial in trials(plan)):
                engine = _engine(means, environ)
                try:
                    ending = Runner(plan, folder, ledger, engine, bounds).run(lambda: bool(came), tell or _nothing)
                finally:
                    engine.close()
                    for leftover in (WORK, MAKING, *([RUNS] if plan.keep_traces == "none" else [])):
                        remove_leftover(folder / leftover)
        finally:
            results = write_results(folder, read_rows(folder), _suite(plan, len(ledger.rows)))
        fresh = len(ledger.rows) - before
        rows = list(latest_rows(folder).values())
        return Came(ending, rows, fresh, ledger.paid_usd, plan.count, results, came[0] if came else 0)


def _nothing(progress: BenchProgress) -> None:
    pass


def left_usd(plan: BenchPlan, rows: Mapping[str, Row], environ: Mapping[str, str]) -> float | None:
    """Return the expected cost of the remaining trials, or None if the price of a model is unknown."""
    prices = model_prices(plan, environ)
    if any(price is None and not is_free(model) for model, price in prices.items()):
        return None
    waiting = (trial for trial in trials(plan) if trial.id not in rows)
    return plan_usd(waiting, prices, CostEstimates.of(rows.values()))


def _engine(means: Means, environ: Mapping[str, str]) -> Engine:
    if means.engine == "dask":
        from .engine_dask import DaskEngine

        return DaskEngine(means.scheduler, means.jobs, trial_seconds=means.trial_seconds)
    from .engine_local import LocalEngine

    return LocalEngine(means.jobs, environ, trial_seconds=means.trial_seconds)


def _suite(plan: BenchPlan, rows: int) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "command": plan.command,
        "suite": plan.suite,
        "about": plan.description,
        "version": VERSION,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory / (1 << 30):.1f} GiB",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "trials": str(rows),
        "planned": str(plan.count),
        "price": plan.price,
        "latency_seconds": f"{plan.latency_seconds:g}",
        "pause_seconds": f"{plan.pause_seconds:g}",
        "models": ", ".join(plan.models),
        **({"looks": str(plan.looks), "decide_on": plan.decide_on} if plan.looks > 1 else {}),
    }


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list. A second signal ends the program immediately."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came:
            os._exit(128 + number)
        came.append(number)

    # Python allows signal handlers only in the main thread.
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
