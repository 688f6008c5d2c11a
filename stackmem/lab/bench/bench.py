"""A bench from its plan to its results: the one call of this package that does everything."""

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

from stackmem.errors import UsageError
from stackmem.models.local_servers import is_known
from stackmem.models.registry import is_free
from stackmem.tools.plugins import refuse_unlike_plugins
from stackmem.version import VERSION

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
    """How a bench is run; none of it changes what a row holds, but for times."""

    jobs: int
    engine: EngineName = "local"
    scheduler: str | None = None  # address of a Dask scheduler; None starts one here
    concurrency: dict[str, int] = {}  # provider to the most trials that may ask it at once
    total_usd: float | None = None  # for the whole bench, what its ledger holds already included
    trial_seconds: float | None = None  # after which a trial is killed; None is never
    retry_errors: bool = False  # whether trials that ended with an error are made again


class Came(Struct, frozen=True):
    """What a bench came to."""

    ending: Ending
    rows: list[Row]  # all of the plan's trials that have one, also from earlier calls; the columns of ``ledger.KEPT``
    fresh: int  # how many of them are new
    paid_usd: float  # for all that was ever made, what was made again included
    total: int
    results: Path
    signal: int = 0  # that ended it; 0 without one


def run_bench(
    plan: BenchPlan,
    folder: Path,
    means: Means,
    environ: Mapping[str, str] = os.environ,
    begin: Callable[[BenchPlan, Mapping[str, Row]], None] | None = None,
    tell: Callable[[BenchProgress], None] | None = None,  # told of every row, and now and then that time has passed
) -> Came:
    """Make every trial of the plan that the folder has no row of, and write its results."""
    folder = folder.absolute()
    refuse_unlike_plugins(plan.plugins)
    prices = model_prices(plan, environ)
    if means.total_usd is not None:
        unknown = [model for model, price in prices.items() if not is_known(price) and not is_free(model)]
        if unknown:
            raise UsageError(f"--total-usd cannot be kept: no price of {unknown[0]} is known; leave it out")
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
                    for left in (WORK, MAKING, *([RUNS] if plan.keep_traces == "none" else [])):
                        remove_leftover(folder / left)
        finally:
            results = write_results(folder, read_rows(folder), _suite(plan, len(ledger.rows)))
        fresh = len(ledger.rows) - before
        rows = list(latest_rows(folder).values())
        return Came(ending, rows, fresh, ledger.paid_usd, plan.count, results, came[0] if came else 0)


def _nothing(told: BenchProgress) -> None:
    pass


def left_usd(plan: BenchPlan, rows: Mapping[str, Row], environ: Mapping[str, str]) -> float | None:
    """What is left of a plan will cost; None where the price of one of its models is unknown."""
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
        "about": plan.about,
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
    }


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that came, none at first; a second one ends the program at once."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came:
            os._exit(128 + number)
        came.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
