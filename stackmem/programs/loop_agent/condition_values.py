"""JavaScript's values and operators over JSON, as far as conditions go.

An object or list equals only itself, and compares with nothing; a sum with a text is a text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from .condition_syntax import Fault

MOST_TEXT = 100_000
_OBJECT = "[object Object]"
Visit = Callable[[int], None]


class Undefined:
    """What a missing member is; its one value is ``UNDEFINED``."""


UNDEFINED = Undefined()


def truthy(value: Any) -> bool:
    """As JavaScript has it: an empty list or object is true, 0, NaN and the empty text are not."""
    if isinstance(value, list | dict) or callable(value):
        return True
    return not (value is UNDEFINED or value is None or value in (0, "", False) or value != value)  # noqa: PLR0124 - NaN


def type_of(value: Any) -> str:
    match value:
        case Undefined():
            return "undefined"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case _:
            return "function" if callable(value) else "object"


def applied(operator: str, value: Any) -> Any:
    """A prefix operator."""
    match operator:
        case "!":
            return not truthy(value)
        case "typeof":
            return type_of(value)
        case "-":
            return -number_of(value)
        case _:
            return number_of(value)


def combined(operator: str, left: Any, right: Any) -> Any:
    """An infix operator, except the two that may leave out their right side."""
    match operator:
        case "===":
            return _strictly_equal(left, right)
        case "!==":
            return not _strictly_equal(left, right)
        case "==":
            return _loosely_equal(left, right)
        case "!=":
            return not _loosely_equal(left, right)
        case "<" | ">" | "<=" | ">=":
            return _compared(operator, left, right)
        case "+" if isinstance(left, str | list | dict) or isinstance(right, str | list | dict):
            return _bounded(text_of(left), text_of(right))
        case _:
            return _reckoned(operator, number_of(left), number_of(right))


def _bounded(left: str, right: str) -> str:
    if len(left) + len(right) > MOST_TEXT:
        raise Fault(f"Expression evaluation failed: it makes a text of more than {MOST_TEXT:,} characters")
    return left + right


def _strictly_equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | dict) or isinstance(right, list | dict) or callable(left) or callable(right):
        return left is right
    return type_of(left) == type_of(right) and bool(left == right)


def _loosely_equal(left: Any, right: Any) -> bool:
    nothing = (None, UNDEFINED)
    if left is None or right is None or left is UNDEFINED or right is UNDEFINED:
        return any(left is each for each in nothing) and any(right is each for each in nothing)
    if type_of(left) == type_of(right) or isinstance(left, list | dict) or isinstance(right, list | dict):
        return _strictly_equal(left, right)
    return bool(number_of(left) == number_of(right))


def _compared(operator: str, left: Any, right: Any) -> bool:
    if not (isinstance(left, str) and isinstance(right, str)):
        left, right = number_of(left), number_of(right)
    match operator:
        case "<":
            return bool(left < right)
        case ">":
            return bool(left > right)
        case "<=":
            return bool(left <= right)
        case _:
            return bool(left >= right)


def _reckoned(operator: str, left: float, right: float) -> float:
    try:
        match operator:
            case "+":
                made = left + right
            case "-":
                made = left - right
            case "*":
                made = left * right
            case "/":
                made = left / right
            case _:
                made = math.fmod(left, right)
    except ZeroDivisionError:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
    except (ValueError, OverflowError):
        return math.nan
    return float(made) if isinstance(made, int) and abs(made) > 2**53 else made


def number_of(value: Any) -> float:
    """``Number(value)``; what is no number is NaN."""
    match value:
        case bool() | None:
            return int(value or 0)
        case int():
            return value if abs(value) <= 2**53 else _float(value)
        case float():
            return value
        case str():
            return _numeral(value.strip())
        case _:
            return math.nan


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _numeral(text: str) -> float:
    if not text:
        return 0
    plain = text.isascii() and "_" not in text and text.lstrip("+-")[:1] in set("0123456789.")
    try:
        return float(text) if plain and len(text) < 400 else math.nan
    except ValueError:
        return math.nan


def text_of(value: Any) -> str:
    """``String(value)``; of a list the first hundred items count, and a list within it is an object."""
    match value:
        case str():
            return value
        case Undefined():
            return "undefined"
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return repr(value) if abs(value) < 2**1000 else "Infinity"
        case list():
            return ",".join(_OBJECT if isinstance(each, list) else text_of(each) for each in value[:100])[:MOST_TEXT]
        case _:
            return _OBJECT


def member(value: Any, name: str) -> Any:
    """``value.name``, ``length`` included."""
    if isinstance(value, dict):
        return value.get(name, UNDEFINED)
    if name == "length" and isinstance(value, str | list):
        return len(value)
    return UNDEFINED


def item(value: Any, key: Any) -> Any:
    """``value[key]``."""
    if isinstance(value, str | list):
        number = number_of(key) if not isinstance(key, bool) else math.nan
        if number == number and 0 <= number < len(value) and number == int(number):  # noqa: PLR0124 - NaN
            return value[int(number)]
    return member(value, text_of(key))


_OF_TEXTS: dict[str, Callable[..., Any]] = {
    "toLowerCase": lambda text: text.lower(),
    "toUpperCase": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "trimStart": lambda text: text.lstrip(),
    "trimEnd": lambda text: text.rstrip(),
}
_FINDING: dict[str, Callable[[str, str], Any]] = {
    "includes": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "indexOf": lambda text, part: text.find(part),
    "lastIndexOf": lambda text, part: text.rfind(part),
}


def called(owner: Any, method: str, arguments: list[Any], visit: Visit) -> Any:
    """What a method gives.

    Raises:
        Fault: There is no such method, or what it is given does not fit.

    """
    first = arguments[0] if arguments else UNDEFINED
    if method in ("toString", "valueOf"):
        return text_of(owner) if method == "toString" else owner
    if isinstance(owner, str) and method in _OF_TEXTS:
        return _OF_TEXTS[method](owner)
    if isinstance(owner, str) and method in _FINDING:
        return _FINDING[method](owner, text_of(first))
    if isinstance(owner, list) and method in ("includes", "indexOf", "lastIndexOf"):
        visit(len(owner) // 10)
        places = [index for index, each in enumerate(owner) if _strictly_equal(each, first)]
        if method == "includes":
            return bool(places)
        return -1 if not places else places[0] if method == "indexOf" else places[-1]
    if isinstance(owner, list) and method in ("some", "every", "find", "filter", "map", "reduce"):
        if not callable(first):
            raise Fault(f"Expression evaluation failed: {method} takes a function")
        return _iterated(owner, method, first, arguments[1:])
    raise Fault(f"Expression evaluation failed: {method[:80]} is not a function")


def _iterated(owner: list[Any], method: str, function: Callable[..., Any], more: list[Any]) -> Any:
    match method:
        case "some":
            return any(truthy(function(each, index)) for index, each in enumerate(owner))
        case "every":
            return all(truthy(function(each, index)) for index, each in enumerate(owner))
        case "find":
            return next((each for index, each in enumerate(owner) if truthy(function(each, index))), UNDEFINED)
        case "filter":
            return [each for index, each in enumerate(owner) if truthy(function(each, index))]
        case "map":
            return [function(each, index) for index, each in enumerate(owner)]
    if not more and not owner:
        raise Fault("Expression evaluation failed: reduce of an empty list without a first value")
    made, items = (more[0], owner) if more else (owner[0], owner[1:])
    for index, each in enumerate(items):
        made = function(made, each, index)
    return made
