"""Show the progress of a bench: a live table on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Protocol

from msgspec import Struct

from stackmem.cli.screen.live import LiveLines, PlainLines
from stackmem.cli.screen.text import align, plain, without_columns
from stackmem.core.text import quantity

from .plan import BenchPlan
from .runner import BenchProgress
from .trial import Row

_LINE_SECONDS = 2.0
_BY = " by "


class Sums(Struct):
    """Running means of one strategy."""

    rows: int = 0
    errors: int = 0
    judged: int = 0
    solved: int = 0
    billed: int = 0
    priced: int = 0
    bill_usd: float = 0.0
    evaluated_tokens: int = 0
    model_seconds: float = 0.0
    peak_tokens: float = 0.0

    def add(self, row: Row) -> None:
        self.rows += 1
        if row["outcome"] == "error":  # an error is not evidence about the strategy
            self.errors += 1
            return
        if row.get("solved") is not None:
            self.judged += 1
            self.solved += row["solved"]
        if row.get("bill_uncached") is not None:
            self.billed += 1
            self.evaluated_tokens += row["bill_uncached"]
            self.model_seconds += row.get("model_seconds") or 0.0
            self.peak_tokens += row.get("peak_context_tokens") or 0
        if row.get("bill_usd") is not None:
            self.priced += 1
            self.bill_usd += row["bill_usd"]

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Return rows, errors, solved, mean bill and mean peak."""
        return (
            f"{self.rows:,}",
            f"{self.errors:,}",
            f"{self.solved / self.judged:.0%}" if self.judged else "-",
            self.bill,
            f"{self.peak_tokens / self.billed:,.0f}" if self.billed else "-",
        )

    @property
    def rank(self) -> tuple[float, float]:
        """Return the key that sorts the best strategy first."""
        solved = self.solved / self.judged if self.judged else -1.0
        return -solved, self.bill_usd / self.priced if self.priced else inf

    @property
    def bill(self) -> str:
        """Return the mean bill in dollars. For free models, return evaluated tokens and seconds instead."""
        if self.priced:
            return f"${self.bill_usd / self.priced:.4f}"
        if not self.billed:
            return "-"
        return f"{self.evaluated_tokens / self.billed:,.0f} evaluated, {self.model_seconds / self.billed:,.1f} s"


_SPARED = ("peak tokens", "errors", "trials")
"""Columns to drop on a narrow terminal, in this order."""
HEADS = ("strategy", "trials", "errors", "solved", "bill", "peak tokens")


def sums_of(rows: Iterable[Row]) -> dict[str, Sums]:
    return short_names(_sums(rows))


def _sums(rows: Iterable[Row]) -> dict[str, Sums]:
    sums: dict[str, Sums] = {}
    for row in rows:
        sums.setdefault(cell_name(row), Sums()).add(row)
    return sums


def short_names(sums: dict[str, Sums]) -> dict[str, Sums]:
    """Drop the model from the names if there is only one."""
    models = {name.rpartition(_BY)[2] for name in sums}
    return sums if len(models) > 1 else {name.rpartition(_BY)[0]: each for name, each in sums.items()}


def cell_name(row: Row) -> str:
    return f"{row['strategy']}{_BY}{row['model']}"


def strategy_lines(rows: Iterable[Row], strategies: Sequence[str], width: int | None = None) -> list[str]:
    """Return a table of means: the most solved first, then the lowest bill, then the planned order.

    On a narrow terminal, less important columns are left out.
    """
    table = [HEADS, *((plain(name), *sums.cells) for name, sums in _ranked(rows, strategies))]
    return align(without_columns(table, _SPARED, width), (0,))


def _ranked(rows: Iterable[Row], strategies: Sequence[str]) -> list[tuple[str, Sums]]:
    positions = {name: at for at, name in enumerate(strategies)}
    planned = sorted(rows, key=lambda row: positions.get(row["strategy"], len(positions)))
    return sorted(sums_of(planned).items(), key=lambda pair: pair[1].rank)


def bench_answer(rows: Iterable[Row], strategies: Sequence[str]) -> str:
    """Return which strategy to take by the means of its trials. Empty without a judged trial."""
    (name, best), *others = _ranked(rows, strategies) or [("", Sums())]
    if not best.judged:
        return ""
    bill = f" for {best.bill} a trial" if best.priced else ""
    solved = f"solved {best.solved / best.judged:.0%} of {quantity(best.judged, 'trial')}{bill}"
    equal = any(each.judged and each.solved * best.judged == best.solved * each.judged for _, each in others)
    if not others or (equal and not best.priced):
        return f"{plain(name)} {solved}."
    reason = "costs least of the strategies that solved the most" if equal else "solved the most"
    return f"{plain(name)} {reason}: it {solved}."


def _error_line(row: Row) -> str:
    return f"error in {plain(row['id'])}: {plain(str(row['error']))[:200]}"


class BenchScreen(AbstractContextManager["BenchScreen"], Protocol):
    def begin(self, plan: BenchPlan, rows: Mapping[str, Row]) -> None: ...
    def __call__(self, progress: BenchProgress) -> None: ...


class _Counts:
    """Counters shared by all screens."""

    def __init__(self) -> None:
        self.total = self.done = self.errors = self.fresh = 0
        self.sums: dict[str, Sums] = {}
        self.started_at = time.monotonic()

    def begin(self, plan: BenchPlan, rows: Mapping[str, Row]) -> None:
        self.started_at = time.monotonic()
        self.total = plan.count
        self.done = len(rows)
        self.errors = sum(row["outcome"] == "error" for row in rows.values())
        self.sums = _sums(rows.values())

    def add(self, row: Row) -> None:
        self.done += 1
        self.fresh += 1
        self.errors += row["outcome"] == "error"
        self.sums.setdefault(cell_name(row), Sums()).add(row)

    def line(self, progress: BenchProgress) -> str:
        errors = f", {self.errors:,} errors" if self.errors else ""
        cost = f", ${progress.spent_usd:,.4f} paid" if progress.spent_usd else ""
        done = f"{self.done:,}/{quantity(self.total, 'trial')}"
        return f"{done}, {progress.running} running{errors}{cost}, {self.remaining()}"

    def remaining(self) -> str:
        elapsed = time.monotonic() - self.started_at
        if self.fresh < 2 or self.done >= self.total:
            return f"{elapsed:.0f} s"
        remaining = elapsed / self.fresh * (self.total - self.done)
        return f"{elapsed:.0f} s, about {remaining:.0f} s to go"


class PlainBench(PlainLines):
    """Prints a line on stderr at most every two seconds, or no output if ``quiet``."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._counts = _Counts()
        self._last_line_at = 0.0

    def begin(self, plan: BenchPlan, rows: Mapping[str, Row]) -> None:
        self._counts.begin(plan, rows)

    def __call__(self, progress: BenchProgress) -> None:
        if progress.row is None or self._quiet:
            return
        self._counts.add(progress.row)
        if progress.row["outcome"] == "error":
            self._say(_error_line(progress.row))
        now = time.monotonic()
        if now - self._last_line_at >= _LINE_SECONDS or self._counts.done == self._counts.total:
            self._last_line_at = now
            self._say(self._counts.line(progress))


class LiveBench(LiveLines):
    """Shows a table of running means with a status line below it."""

    def __init__(self) -> None:
        super().__init__(a_second=4, soft_wrap=False)
        self._counts = _Counts()

    def begin(self, plan: BenchPlan, rows: Mapping[str, Row]) -> None:
        self._counts.begin(plan, rows)

    def __call__(self, progress: BenchProgress) -> None:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if progress.row is not None:
            self._counts.add(progress.row)
            if progress.row["outcome"] == "error":
                self._console.print(Text(_error_line(progress.row)))
        table = Table(box=None, pad_edge=False)
        for head in HEADS:
            table.add_column(head, justify="left" if head == "strategy" else "right")
        for name, sums in short_names(self._counts.sums).items():
            table.add_row(Text(plain(name)), *sums.cells)
        self._live.update(Group(table, Text(self._counts.line(progress), style="bold")))


def open_bench_screen(*, quiet: bool) -> BenchScreen:
    if quiet or not sys.stderr.isatty():
        return PlainBench(quiet=quiet)
    return LiveBench()
