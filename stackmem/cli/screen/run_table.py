"""Runs as lines of a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from stackmem.kept.run_list import INTERRUPTED, RunRow

from .columns import aligned
from .progress import one_line

_HEADINGS = ("run", "outcome", "steps", "frames", "tokens", "cost", "seconds", "model", "from")
_SPARED = ("model", "frames", "seconds", "tokens", "from")  # on a terminal without room, the first one first


def table(rows: Sequence[RunRow], width: int | None = None) -> list[str]:
    """One line for each run under a line of headings; a dash stands for what is not known.

    Where a line would be longer than ``width``, columns are left out; so is that of parents where no run has one.
    """
    lines = [dict(zip(_HEADINGS, _HEADINGS, strict=True)), *map(_cells, rows)]
    kept = [name for name in _HEADINGS if name != "from" or any(row.parent for row in rows)]
    for name in [name for name in _SPARED if name in kept]:
        needed = sum(max(cell_len(line[column]) for line in lines) for column in kept) + 2 * (len(kept) - 1)
        if width is None or needed <= width:
            break
        kept.remove(name)
    return aligned([[line[name] for name in kept] for line in lines], left=(0, 1), outcomes=1)


def _cells(row: RunRow) -> dict[str, str]:
    return {
        "run": one_line(row.run),
        "outcome": one_line(row.outcome),
        "steps": _number(row.steps),
        "frames": _number(row.frames),
        "tokens": _number(row.tokens),
        "cost": "-" if row.cost_usd is None else f"${row.cost_usd:.4f}",
        "seconds": "-" if row.wall_seconds is None else f"{row.wall_seconds:,.1f}",
        "model": one_line(row.model) or "-",
        "from": one_line(row.parent) or "-",
    }


def resumable(rows: Sequence[RunRow]) -> str:
    """How an interrupted run goes on: the newest is named; empty where none is."""
    stopped = sorted(row.run for row in rows if row.outcome == INTERRUPTED)
    return (
        f"interrupted runs go on with stackmem resume, as: stackmem resume {one_line(stopped[-1])}" if stopped else ""
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
