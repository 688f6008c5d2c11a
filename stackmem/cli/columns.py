"""Rows of text as aligned columns, whatever the texts hold."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """One line for each row, of equal length; the columns ``left`` stand left, all others right, the last one as it is.

    Widths are terminal cells: a wide character takes two.
    """
    columns = range(len(rows[0]) - 1) if rows else range(0)
    widths = [max(cell_len(row[column]) for row in rows) for column in columns]
    lines = []
    for row in rows:
        cells = []
        for column, width in enumerate(widths):
            gap = " " * (width - cell_len(row[column]))
            cells.append(row[column] + gap if column in left else gap + row[column])
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines
