"""The text of ``stackmem --help``, as typer would write it. Without typer it takes a third of the time."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping

from .catalog import DESCRIPTION, EXIT_CODES, GROUPS, ROOT_OPTIONS


def root_help() -> str:
    width = max(min(shutil.get_terminal_size().columns, 80) - 2, 50)
    lines = ["Usage: stackmem [OPTIONS] COMMAND [ARGS]...", "", *_wrapped(DESCRIPTION, width)]
    for title, rows in {"Options": ROOT_OPTIONS, **GROUPS}.items():
        lines += ["", f"{title}:", *_columns(rows, width)]
    return "\n".join([*lines, "", *_wrapped(" ".join(EXIT_CODES.split()), width)])


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")


def _columns(rows: Mapping[str, str], width: int) -> Iterator[str]:
    first = max(map(len, rows)) + 2
    for name, text in rows.items():
        for number, line in enumerate(textwrap.wrap(text, width - first - 2)):
            yield f"  {'' if number else name:{first}}{line}"
