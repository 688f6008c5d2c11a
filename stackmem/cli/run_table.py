"""Runs as lines of a table."""

from __future__ import annotations

from collections.abc import Sequence

from stackmem.harness.run_list import RunRow

from .columns import aligned
from .progress import one_line

_HEADINGS = ("run", "outcome", "steps", "frames", "tokens", "cost", "seconds", "model")


def table(rows: Sequence[RunRow]) -> list[str]:
    """One line for each run under a line of headings; a dash stands for what is not known."""
    return aligned([_HEADINGS, *map(_cells, rows)], left=(0, 1), outcomes=1)


def _cells(row: RunRow) -> tuple[str, ...]:
    return (
        one_line(row.run),
        one_line(row.outcome),
        _number(row.steps),
        _number(row.frames),
        _number(row.tokens),
        "-" if row.cost_usd is None else f"${row.cost_usd:.4f}",
        "-" if row.wall_seconds is None else f"{row.wall_seconds:,.1f}",
        one_line(row.model) or "-",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
