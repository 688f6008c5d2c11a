"""Text and JSON as they come from a model: made safe to store, or told to be malformed."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from stackmem.core.text import whole, whole_value

MOST_TOKENS = 1 << 40
"""A server that counts more tokens than this has not counted; the number would break every sum of costs."""


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
