"""Text from standard input, for flags that read it."""

from __future__ import annotations

import os
import select

from stackmem.core.errors import UsageError

from .text import say

STDIN = "-"
"""The text that stands for standard input."""

_LONGEST_BYTES = 1 << 20
_PATIENCE_SECONDS = 3.0


def text_or_stdin(text: str) -> str:
    """Return the text of a flag, or standard input if the text is ``-``.

    Raise UsageError if standard input is a terminal, is empty, has over 1 MiB, or is not text.
    """
    return read_stdin("-t -") if text == STDIN else text


def read_stdin(flag: str, *, may_be_empty: bool = False) -> str:
    if os.isatty(0):
        raise UsageError(f"{flag} reads standard input, which is a terminal; pipe the text into the command")
    if not select.select([0], [], [], _PATIENCE_SECONDS)[0]:
        say("reading standard input until its end; redirect it from /dev/null to leave it out")
    parts, size = list[bytes](), 0
    while part := os.read(0, 1 << 16):
        parts.append(part)
        size += len(part)
        if size > _LONGEST_BYTES:
            raise UsageError("standard input has over 1 MiB; store it in a file of the folder and name the file")
    try:
        text = b"".join(parts).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start:,}); name a file instead") from error
    if "\0" in text:
        raise UsageError("standard input contains a NUL byte, so it is not text; name a file instead")
    if not text.strip() and not may_be_empty:
        raise UsageError(f"standard input is empty, and {flag} reads the text from it")
    return text
