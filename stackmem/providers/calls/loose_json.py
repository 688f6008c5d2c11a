"""Parses JSON objects as small models write them.

Repairs line breaks in strings, single quotes, trailing commas, comments, unquoted keys, typographic quotes, and
missing braces.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

from stackmem.core.text import whole_value

_DECODER = json.JSONDecoder(strict=False)  # accept control characters in strings
_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"{_STRING}|[{{}}\[\]\"]|```|</|<[|｜]|\n\s*\n", re.DOTALL)
_MENDED = re.compile(
    rf"(?P<string>{_STRING})|(?P<comment>//[^\n]*|/\*.*?\*/)|,(?P<closing>\s*[}}\]])"
    r"|(?P<before>[{,]\s*)(?P<key>[A-Za-z_]\w*)(?P<colon>\s*:)",
    re.DOTALL,
)
_PYTHON = re.compile(r"\{\s*'")
_MAX_MENDED = 100_000
_MAX_MENDINGS = 20


class JsonText:
    """A text to search for objects. Repairs are slow, so only the first few faulty objects are repaired."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._mendings_left = _MAX_MENDINGS

    def object_at(self, position: int) -> tuple[dict[str, Any], int, bool] | None:
        """Call ``read_object``, with repair while attempts are left."""
        read = read_object(self.text, position, mend=self._mendings_left > 0)
        self._mendings_left -= read is None or read[2]
        return read


def read_object(text: str, position: int, *, mend: bool = True) -> tuple[dict[str, Any], int, bool] | None:
    """Parse the object at ``position``; return it, its end, and whether it was repaired. None if it is not an object.

    An object that ends inside a string is not completed, because the missing text is unknown.
    """
    strict = _decode(text, position)
    if strict is not None:
        return (*strict, False)
    if not mend:
        return None
    # Repair takes several passes over the text, so it is bounded.
    piece = text[position : position + _MAX_MENDED]
    straight = piece if '"' in piece else re.sub("[“”„]", '"', piece)
    straight = straight.replace("\u00a0", " ") if ":\u00a0" in straight else straight
    # A reply that ended early lacks only brackets; text that is missing cannot be repaired.
    end, missing = object_extent(straight)
    candidates = [straight[:end].rstrip().rstrip(",") + missing] if end else []
    if _PYTHON.match(piece):
        candidates += [piece[: piece.rfind("}") + 1]]
    for candidate in candidates:
        value = _object(_MENDED.sub(_mend, candidate)) or _python_object(candidate)
        if value is not None:
            length = len(candidate) - (len(missing) if candidate.endswith(missing) else 0)
            return value, position + min(length, len(piece)), True
    return None


def _mend(match: re.Match[str]) -> str:
    # Strings are matched to be skipped: a comma or comment in a string is content.
    if match["string"] is not None:
        return match["string"]
    if match["comment"] is not None:
        return ""
    if match["closing"] is not None:
        return match["closing"]
    return f'{match["before"]}"{match["key"]}"{match["colon"]}'


def _decode(text: str, position: int) -> tuple[dict[str, Any], int] | None:
    try:
        value, end = _DECODER.raw_decode(text, position)
        return (whole_value(value), end) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _object(text: str) -> dict[str, Any] | None:
    decoded = _decode(text, 0)
    return decoded[0] if decoded is not None else None


def _python_object(text: str) -> dict[str, Any] | None:
    try:
        with warnings.catch_warnings():  # invalid escapes such as \d, which models write
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        # Through JSON, because Python literals have sets, tuples and bytes, which arguments cannot be.
        return whole_value(json.loads(json.dumps(value))) if isinstance(value, dict) else None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def object_extent(text: str) -> tuple[int, str]:
    """Return the end of the object at the start of ``text``, and its missing brackets; ``(0, "")`` inside a string."""
    waiting: list[str] = []
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign == '"':
            return 0, ""
        if sign in "{[":
            waiting.append("}" if sign == "{" else "]")
        elif sign in "}]":
            if not waiting or waiting.pop() != sign:
                return 0, ""
            if not waiting:
                return match.end(), ""
        elif not sign.startswith('"'):  # a fence, tag or empty line: the object should have ended before it
            return match.start(), "".join(reversed(waiting))
    return len(text), "".join(reversed(waiting))
