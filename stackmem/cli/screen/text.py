"""Text on its way to the screen, whatever a model, a tool or a stranger's file put into it; rows of it as
aligned columns.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress

import typer
from typer import style

_SHORT_CHARS = 100


def readable(text: str) -> str:
    """Text of a model or a tool that can do nothing to a terminal."""
    if text.isprintable():  # nearly every line, and ten times as quick
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def escape(text: str, keep: str = "") -> str:
    """Text that cannot move the cursor, turn the writing direction or break the line; nothing of it is lost."""
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def plain(text: str) -> str:
    """The text with a space for whatever cannot be printed."""
    return "".join(char if char.isprintable() else " " for char in text)


def one_line(text: str) -> str:
    """Hostile text as one short line that can only be read."""
    short = " ".join(plain(text[: 4 * _SHORT_CHARS]).split())
    return short if len(short) <= _SHORT_CHARS else short[: _SHORT_CHARS - 1] + "…"


def spell_cost(usd: float | None, tokens: int, unknown: str = "cost unknown") -> str:
    """A cost as a person reads it. Tokens that cost nothing came from a model on this machine."""
    if usd is None:
        return unknown
    return "free (local)" if usd == 0 and tokens else f"${usd:.4f}"


def say(*lines: str) -> None:
    """Lines on stderr, which nobody need read; written directly, as a long program says a hundred thousand."""
    for line in lines:
        with suppress(OSError):
            if sys.stderr is not None:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()


def echo_json(value: object) -> None:
    """The value as one line of JSON on stdout."""
    import msgspec

    typer.echo(msgspec.json.encode(value, enc_hook=str).decode())


_COLORS = {
    "solved": "green", "finished": "green", "popped": "green", "unsolved": "red", "forced": "red", "failed": "red",
    "refused": "yellow", "nudged": "yellow", "open": "yellow", "interrupted": "yellow", "running": "cyan",
}  # fmt: skip


def align(
    rows: Sequence[Sequence[str]], left: Sequence[int], outcomes: int | None = None, width: int | None = None
) -> list[str]:
    """One line for each row; the columns ``left`` stand left, all others right, and the last one is as long as it is.

    Widths are terminal cells: a wide character takes two. Of a line longer than ``width`` the last column is cut.
    The first words of the column ``outcomes`` have their colors, which ``typer.echo`` keeps from what is no terminal.
    """
    from rich.cells import cell_len

    columns = range(len(rows[0]) - 1) if rows else range(0)
    widths = [max(cell_len(row[column]) for row in rows) for column in columns]
    room = None if width is None else max(1, width - sum(widths) - 2 * len(widths))
    lines = []
    for row in rows:
        cells = []
        for column, wide in enumerate(widths):
            gap = " " * (wide - cell_len(row[column]))
            cells.append(row[column] + gap if column in left else gap + row[column])
        cells.append(row[-1] if room is None else _cut(row[-1], room))
        if outcomes is not None:
            cells[outcomes] = _color(cells[outcomes])
        lines.append("  ".join(cells).rstrip())
    return lines


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _color(cell: str) -> str:
    word = re.match(r"\w+", cell)
    color = _COLORS.get(word[0]) if word and "NO_COLOR" not in os.environ else None
    return f"{style(word[0], fg=color)}{cell[word.end() :]}" if word and color else cell


def _cut(text: str, cells: int) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= cells:
        return text
    while text and cell_len(text) > cells - 1:
        text = text[:-1]
    return f"{text}…"
