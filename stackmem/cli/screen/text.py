"""Makes text from models, tools and unknown files safe for the terminal, and aligns rows in columns."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress

import typer
from typer import style

_SHORT_CHARS = 100
_LAST_CELLS = 24


def readable(text: str) -> str:
    """Replace characters that could control a terminal; newlines and tabs stay."""
    if text.isprintable():  # true for most lines, and ten times faster
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def escape(text: str, keep: str = "") -> str:
    """Escape characters that could move the cursor, change the writing direction or break the line; loses no text."""
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def plain(text: str) -> str:
    """Replace unprintable characters with spaces."""
    return "".join(char if char.isprintable() else " " for char in text)


def one_line(text: str) -> str:
    """Turn untrusted text into one short, printable line."""
    short = " ".join(plain(text[: 4 * _SHORT_CHARS]).split())
    return short if len(short) <= _SHORT_CHARS else short[: _SHORT_CHARS - 1] + "…"


def spell_cost(usd: float | None, tokens: int, unknown: str = "cost unknown") -> str:
    """Format a cost. Tokens that cost nothing come from a model on this machine."""
    if usd is None:
        return unknown
    return "free (local)" if usd == 0 and tokens else f"${usd:.4f}"


def spell_seconds(seconds: float) -> str:
    """Format a time for progress, as in ``12 s`` or ``3 min 20 s``."""
    number = round(seconds)
    if number < 60:
        return f"{number} s"
    if number < 3600:
        return f"{number // 60} min {number % 60} s"
    return f"{number // 3600} h {number % 3600 // 60} min"


def say(*lines: str) -> None:
    """Print lines to stderr; write errors are ignored. Writes directly, because programs may print 100,000 lines."""
    for line in lines:
        with suppress(OSError):
            if sys.stderr is not None:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()


def echo_json(value: object) -> None:
    """Print a value as one line of JSON on stdout."""
    import msgspec

    typer.echo(msgspec.json.encode(value, enc_hook=str).decode())


_COLORS = {
    "solved": "green", "finished": "green", "popped": "green", "unsolved": "red", "forced": "red", "failed": "red",
    "refused": "yellow", "nudged": "yellow", "open": "yellow", "interrupted": "yellow", "running": "cyan",
}  # fmt: skip


def align(
    rows: Sequence[Sequence[str]], left: Sequence[int], outcomes: int | None = None, width: int | None = None
) -> list[str]:
    """Format rows in columns: those in ``left`` are left-aligned, the others right-aligned; the last is not padded.

    Widths count terminal cells; wide characters take two. If a line exceeds ``width``, its last column is cut. The
    first word of the column ``outcomes`` is colored; ``typer.echo`` removes colors if stdout is not a terminal.
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
        cells.append(row[-1] if room is None else fitted(row[-1], room))
        if outcomes is not None:
            cells[outcomes] = _color(cells[outcomes])
        lines.append("  ".join(cells).rstrip())
    return lines


def without_columns(
    rows: Sequence[Sequence[str]], spared: Sequence[str], width: int | None, last: int = _LAST_CELLS
) -> list[Sequence[str]]:
    """Drop columns by their heading, in the order of ``spared``, until the rows fit ``width``.

    The last column needs room for ``last`` cells only, because ``align`` cuts it.
    """
    from rich.cells import cell_len

    columns = list(range(len(rows[0])))
    needs = [max(cell_len(row[column]) for row in rows) for column in columns]
    needs[-1] = min(needs[-1], last)
    for name in spared:
        if width is None or sum(needs[column] + 2 for column in columns) - 2 <= width:
            break
        columns = [column for column in columns if rows[0][column] != name]
    return [[row[column] for column in columns] for row in rows]


def wrapped(text: str, indent: str = "") -> str:
    """Wrap the lines of a text at the terminal's width without tearing words. ``indent`` starts continued lines."""
    width = terminal_width()
    if width is None:
        return text
    fill = textwrap.TextWrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ).fill
    return "\n".join(fill(line) if len(line) > width else line for line in text.split("\n"))


def colored_outcome(text: str) -> str:
    """Color the first word of a text if it is an outcome; ``typer.echo`` removes colors if stdout is not a terminal."""
    return _color(text)


def rows_of(line: str, columns: int) -> list[str]:
    """Split a line into terminal rows between words; neither the library nor a terminal does that."""
    from prompt_toolkit.utils import get_cwidth

    rows, row, width = [], "", 0
    for character in line:
        if width + get_cwidth(character) > columns:
            end = row.rfind(" ") + 1 or len(row)
            rows.append(row[:end])
            row = row[end:]
            width = get_cwidth(row)
        row += character
        width += get_cwidth(character)
    return [*rows, row]


def terminal_width() -> int | None:
    """Return the width of the terminal on stdout; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _color(cell: str) -> str:
    word = re.match(r"\w+", cell)
    color = _COLORS.get(word[0]) if word and "NO_COLOR" not in os.environ else None
    return f"{style(word[0], fg=color)}{cell[word.end() :]}" if word and color else cell


def fitted(text: str, cells: int) -> str:
    """Cut a line to this many terminal cells, between words if possible, with a mark for the cut."""
    from rich.cells import cell_len

    if cell_len(text) <= cells:
        return text
    start = text[: len(text) - len(text.lstrip())]
    while text and cell_len(text) > cells - 1:
        text = text[:-1]
    words = text.rsplit(" ", 1)[0].rstrip(" ,;:|")
    cut = words if len(words) > max(len(start), len(text) // 2) else text  # a long word is cut rather than left out
    return f"{cut}…" if cut is text else f"{cut} …"
