"""One JSON object out of a model's reply: read strictly, with two repairs and no more.

Rule 1: a fence around the object is taken off; comments and trailing commas outside of strings are blanked, so that
        positions stay; both are recorded.
Rule 2: everything else that is not one JSON object is a fault with its position, never an exception.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from msgspec import Struct

MOST_CHARS = 1_000_000
MOST_DEPTH = 100
_MOST_DIGITS = 300

_FENCE = re.compile(r"\A```[A-Za-z0-9]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\Z", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|[\[\]{},]|[^"/\[\]{},]+|/', re.DOTALL)


class Found(Struct, frozen=True):
    """What a reply holds.

    Attributes:
        value: The object; None where there is a fault.
        fault: One sentence with the position; empty where there is none.
        repairs: What was taken out of it.

    """

    value: dict[str, Any] | None
    fault: str = ""
    repairs: tuple[str, ...] = ()


def read_object(text: str) -> Found:
    """The one object of ``text``."""
    if len(text) > MOST_CHARS:
        return Found(None, f"the reply has {len(text):,} characters, at most {MOST_CHARS:,} are read")
    body, repairs = text.lstrip("\ufeff").strip(), list[str]()
    fenced = _FENCE.match(body)
    if fenced:
        body, repairs = fenced[1].strip(), ["a code fence was taken off"]
    deep = _too_deep(body)
    if deep:
        return Found(None, deep)
    value, fault = _loaded(body)
    if fault:
        cleaned, found = _cleaned(body)
        if found:
            value, again = _loaded(cleaned)
            fault, repairs = again, [*repairs, *found]
    if fault:
        return Found(None, fault)
    if not isinstance(value, dict):
        return Found(None, f"it is {_kind(value)} and not one JSON object (line 1, column 1)")
    return Found(value, repairs=tuple(repairs))


def _loaded(text: str) -> tuple[Any, str]:
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_float, parse_int=_int)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        return None, f"it is not one JSON object: {error.msg} at line {error.lineno}, column {error.colno}"
    except UnicodeEncodeError:
        return None, "it is not one JSON object: a text holds half of a surrogate pair"
    except (ValueError, RecursionError) as error:
        return None, f"it is not one JSON object: {str(error)[:200]}"
    return value, ""


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _int(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"the number {text[:40]}... has {len(text):,} digits, at most {_MOST_DIGITS:,} are read")
    return int(text)


def _too_deep(text: str) -> str:
    depth = 0
    for match in _TOKEN.finditer(text):
        piece = match[0]
        depth += (piece in "[{") - (piece in "]}")
        if depth > MOST_DEPTH:
            return f"it is nested deeper than {MOST_DEPTH} levels ({_place(text, match.start())})"
    return ""


def _cleaned(text: str) -> tuple[str, list[str]]:
    """The text with comments and trailing commas blanked, and what that was."""
    pieces: list[str] = []
    found: dict[str, None] = {}
    comma = -1
    for match in _TOKEN.finditer(text):
        piece = match[0]
        if piece.startswith(("//", "/*")):
            found["comments were taken out"] = None
            piece = re.sub(r"[^\n]", " ", piece)
        elif piece in ("]", "}") and comma >= 0:
            found["trailing commas were taken out"] = None
            pieces[comma] = " "
        pieces.append(piece)
        if piece == ",":
            comma = len(pieces) - 1
        elif piece.strip():
            comma = -1
    return "".join(pieces), list(found)


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def _kind(value: Any) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a text"
        case None:
            return "null"
        case bool():
            return "true or false"
        case _:
            return "a number"
