"""What a bench left behind: one row for each trial, and what is known of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.lab.bench.ledger import read_rows
from stackmem.lab.bench.results import RESULTS, read_results, read_suite
from stackmem.run.run_folder import LEDGER
from stackmem.tools.plugins import load_plugins

_MAX_FIGURE = 1 << 63
"""As the ledger has it; sums and powers of larger ones would overflow."""


class TrialRow(Struct, frozen=True):
    """One trial."""

    row: Mapping[str, Any]  # column to value, as the file has them

    def text(self, column: str) -> str:
        found = self.row.get(column)
        return "" if found is None else str(found)

    def number(self, column: str) -> float:
        """Nan if the trial has no such figure, or one that nothing measured can be."""
        found = self.row.get(column)
        if isinstance(found, int | float) and abs(found) < _MAX_FIGURE:
            return float(found)
        return nan

    @property
    def failed(self) -> bool:
        """The trial came to nothing through no fault of its strategy, and tells nothing about it."""
        return self.text("outcome") == "error"

    @property
    def solved(self) -> float:
        """1 or 0; nan where nobody judged it."""
        found = self.number("solved")
        return nan if self.failed or found not in (0, 1) else found

    @property
    def strategy(self) -> str:
        return self.text("strategy")

    @property
    def task(self) -> str:
        return self.text("family") or self.text("task")

    @property
    def group(self) -> tuple[str, str]:
        """Model and noise: trials that differ in them are never put in one table."""
        return (self.text("model"), self.text("noise"))

    @property
    def horizon(self) -> float:
        return self.number("horizon")

    @property
    def pairing(self) -> tuple[str, ...]:
        """What two trials have in common that can be compared with each other."""
        return tuple(map(self.text, ("task", "family", "horizon", "noise", "seed", "model")))


class BenchRows(Struct, frozen=True):
    """A bench that was run, wholly or in part."""

    folder: Path
    suite: Mapping[str, str]  # what is known of the whole: command, version, date, machine
    trials: tuple[TrialRow, ...]


def read_bench(folder: Path) -> BenchRows:
    """The rows of a bench, by their names; of one that still runs, or was killed, those that it has so far."""
    load_plugins()  # a metric may be one of theirs
    ledger, database = folder / LEDGER, folder / RESULTS
    if not ledger.is_file() and not database.is_file():
        raise UsageError(f"{folder} holds no {RESULTS}; stackmem bench makes one in the folder that its -o names")
    whole = database.is_file() and not _older(database, ledger)
    rows = read_results(folder) if whole else sorted(_last(read_rows(folder)), key=lambda row: str(row["id"]))
    suite = read_suite(folder) if database.is_file() else {}
    return BenchRows(folder, suite, tuple(map(TrialRow, rows)))


def _older(database: Path, ledger: Path) -> bool:
    return ledger.is_file() and database.stat().st_mtime < ledger.stat().st_mtime


def _last(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({str(row["id"]): row for row in rows}.values())
