"""A run's frames as lines: a tree with columns."""

from __future__ import annotations

from collections.abc import Iterator

from stackmem.measure.frames import FrameRow

from .columns import aligned
from .progress import one_line

_HEADINGS = ("frame", "steps", "own", "peak context", "tokens", "cost", "seconds", "outcome")


def tree(rows: tuple[FrameRow, ...], width: int | None = None) -> list[str]:
    """One line for each frame under a line of headings."""
    cells = [_HEADINGS, *(_cells(row, lead) for row, lead in _led(rows))]
    return aligned(cells, left=(0,), outcomes=len(_HEADINGS) - 1, width=width)


def _cells(row: FrameRow, lead: str) -> tuple[str, ...]:
    verified = f" ({one_line(row.verified)})" if row.verified else ""
    outcome = f"{one_line(row.outcome)}{verified}"
    return (
        lead + one_line(row.name),
        f"{row.first_step}-{row.last_step}" if row.last_step >= row.first_step else "-",
        f"{row.steps:,}",
        f"{row.peak_context_tokens:,}",
        ("~" if row.usage.estimated else "") + f"{row.usage.total:,}",
        "unknown" if row.usd is None else f"${row.usd:.4f}",
        f"{row.seconds:,.1f}",
        f"{outcome}: {one_line(row.result)}" if row.result else outcome,
    )


def _led(rows: tuple[FrameRow, ...]) -> Iterator[tuple[FrameRow, str]]:
    """Each frame after its parent, with the branches that lead to it."""
    below: dict[str, list[FrameRow]] = {}
    for row in rows:
        below.setdefault(row.parent, []).append(row)
    waiting = [(row, "", "") for row in reversed(below.get("", []))]
    while waiting:
        row, lead, trunk = waiting.pop()
        yield row, lead
        children = below.get(row.id, [])
        last = len(children) - 1
        waiting += [
            (child, f"{trunk}{'└─ ' if place == last else '├─ '}", f"{trunk}{'   ' if place == last else '│  '}")
            for place, child in reversed(list(enumerate(children)))
        ]
