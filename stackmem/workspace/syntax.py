"""Says of a Python file that was just written that it cannot be parsed: the model reads it at once."""

from __future__ import annotations

import ast
import sys
import warnings

MOST_BYTES = 64 * 1024
"""A larger file is not parsed."""
_SHOWN_CHARS = 120


def syntax_note(path: str, raw: bytes) -> str:
    """One line about the first syntax error; empty if the file is fine, is not Python, or is too large to parse.

    The parser is that of the Python that runs stackmem, so the note names its version.
    """
    if not path.endswith(".py") or len(raw) > MOST_BYTES:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(raw)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        line = f"line {error.lineno}: " if error.lineno else ""
        return f"\nnote: Python {version} cannot parse the file now: {line}{error.msg[:_SHOWN_CHARS]}"
    except (ValueError, RecursionError, MemoryError):  # a file that is no text, or nested very deep
        return ""
    return ""
