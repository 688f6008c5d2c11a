"""Read the results of a bench: one row per trial, and facts about the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.lab.bench.ledger import read_plan, read_rows
from stackmem.lab.bench.looks import current_level
from stackmem.lab.bench.results import RESULTS, read_results, read_suite
from stackmem.lab.bench.statistics import ALPHA
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.run_folder import LEDGER

_MAX_FIGURE = 1 << 63
"""The ledger's limit. Sums and powers of larger values would overflow."""


class TrialRow(Struct, frozen=True):
    """One trial."""

    row: Mapping[str, Any]  # column to value, as in the file

    def text(self, column: str) -> str:
        value = self.row.get(column)
        return "" if value is None else str(value)

    def number(self, column: str) -> float:
        """Return a figure, or nan if the trial does not have it or its value is out of range."""
        value = self.row.get(column)
        if isinstance(value, int | float) and abs(value) < _MAX_FIGURE:
            return float(value)
        return nan

    @property
    def failed(self) -> bool:
        """Whether the trial ended with an error, which says nothing about its strategy."""
        return self.text("outcome") == "error"

    @property
    def solved(self) -> float:
        """1 or 0; nan if the trial was not judged."""
        value = self.number("solved")
        return nan if self.failed or value not in (0, 1) else value

    @property
    def strategy(self) -> str:
        return self.text("strategy")

    @property
    def task(self) -> str:
        return self.text("family") or self.text("task")

    @property
    def group(self) -> tuple[str, str]:
        """Model and noise. Trials that differ in them are never in the same table."""
        return (self.text("model"), self.text("noise"))

    @property
    def horizon(self) -> float:
        return self.number("horizon")

    @property
    def pairing(self) -> tuple[str, ...]:
        """The values that two comparable trials have in common."""
        return tuple(map(self.text, ("task", "family", "horizon", "noise", "seed", "model")))


class BenchRows(Struct, frozen=True):
    """A bench that ran completely or in part."""

    folder: Path
    suite: Mapping[str, str]  # facts about the whole: command, version, date, machine
    trials: tuple[TrialRow, ...]
    alpha: float = ALPHA  # the chance of any false difference in a table; less if the bench can stop early


def read_bench(folder: Path) -> BenchRows:
    """Read the rows of a bench. A bench that is running or was killed has the rows so far.

    Raise UsageError if the folder does not contain a bench, and TraceError if the bench's files are broken.
    """
    load_plugins()  # a metric may come from a plug-in
    ledger, database = folder / LEDGER, folder / RESULTS
    if not ledger.is_file() and not database.is_file():
        raise UsageError(f"{folder} has no {RESULTS}; stackmem bench -o DIR creates one")
    complete = database.is_file() and not _older(database, ledger)
    rows = read_results(folder) if complete else sorted(_last(read_rows(folder)), key=lambda row: str(row["id"]))
    suite, plan = read_suite(folder) if database.is_file() else {}, read_plan(folder)
    trials = tuple(map(TrialRow, rows))
    if plan is None or plan.looks == 1:
        return BenchRows(folder, suite, trials)
    return BenchRows(folder, suite, trials, current_level(plan, {trial.text("id") for trial in trials}))


def _older(database: Path, ledger: Path) -> bool:
    return ledger.is_file() and database.stat().st_mtime < ledger.stat().st_mtime


def _last(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({str(row["id"]): row for row in rows}.values())
