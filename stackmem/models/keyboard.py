"""Standard input as lines that a person types or pastes.

Rule 1: at a terminal a line is edited and recalled; by itself one hands over 4,095 bytes of a line and drops the rest.
Rule 2: a paste of several lines is several lines.
Rule 3: what cannot be read is the end of the input; bytes that are no UTF-8 stay in the line as lone surrogates.
"""

from __future__ import annotations

import io
import sys
from collections import deque
from contextlib import suppress
from typing import TextIO

from .typed_call import MOST_CALL_CHARS


class Keyboard:
    """Lines of standard input, from now on."""

    def __init__(self) -> None:
        self._pasted: deque[str] = deque()
        if isinstance(sys.stdin, io.TextIOWrapper):
            with suppress(ValueError, OSError):
                sys.stdin.reconfigure(errors="surrogateescape")
        self._edited = can_type() and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
        if self._edited:
            with suppress(ImportError):  # some builds of Python come without; typing then is plain
                import readline  # noqa: F401 - input() uses it once it is there

    def readline(self) -> str:
        """The next line with its end; "" at the end of the input. Ctrl-C goes through."""
        if self._pasted:
            return self._pasted.popleft()
        try:
            if not self._edited:
                return _bounded(sys.stdin)
            first, *rest = input().split("\n")
        except (EOFError, OSError, ValueError):
            return ""
        self._pasted.extend(f"{line}\n" for line in rest)
        return f"{first}\n"


def can_type() -> bool:
    """Whether there is a standard input at all."""
    return sys.stdin is not None and not sys.stdin.closed


def _bounded(stream: TextIO) -> str:
    """The next line; of one that is too long, one character too much."""
    line = stream.readline(MOST_CALL_CHARS + 1)
    rest = line
    while len(rest) > MOST_CALL_CHARS and not rest.endswith("\n"):
        rest = stream.readline(MOST_CALL_CHARS + 1)
    return line
