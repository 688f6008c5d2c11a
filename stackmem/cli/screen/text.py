"""Text on its way to the screen, whatever a model, a tool or a stranger's file put into it."""

from __future__ import annotations

import sys
from contextlib import suppress

import typer

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
