"""JSON as its standard has it: Python's reader would also take NaN and Infinity, and make 1e999 infinite."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def strict_value(text: str) -> Any:
    """The value of one JSON text.

    Raises:
        ValueError: It is none, or holds a number that no float can; a ``json.JSONDecodeError`` knows the place.
        RecursionError: It is nested too deeply.

    """
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is out of range")
    return number
