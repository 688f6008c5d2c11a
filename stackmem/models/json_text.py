"""Text and JSON as they come from a model: made safe to store, or told to be malformed."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MOST_TOKENS = 1 << 40
"""A server that counts more tokens than this has not counted; the number would break every sum of costs."""
_DEEPEST = 64
"""Arguments nested deeper are called malformed: every later encoder recurses."""


def whole(text: str) -> str:
    """``text`` with split surrogate pairs joined and lone ones replaced, so that it can be written as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_value(value: Any, depth: int = 0) -> Any:
    """A JSON value with every string of it ``whole``.

    Raises:
        ValueError: It is nested too deep to be stored.

    """
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(name): whole_value(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_value(item, depth + 1) for item in value]
    return value


def parse_arguments(text: str) -> tuple[Any, str | None]:
    """``(value, None)``, or ``(None, text)`` where a call's arguments are no JSON. No text at all is ``{}``."""
    if not text.strip():
        return {}, None
    try:
        return whole_value(json.loads(text, parse_constant=_refuse, parse_float=_finite)), None
    except (ValueError, RecursionError):
        return None, whole(text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is out of range")
    return number
