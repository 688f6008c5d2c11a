"""The JavaScript values, operators and methods that conditions need, on JSON values. None of them change a value.

Every number is a float, as in JavaScript. Texts are counted and compared by code points: a character beyond U+FFFF is
one character, not two as in JavaScript. Expensive operations report their cost to ``visit``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any

from .syntax import ConditionFault

MAX_TEXT = 100_000
CHARS_READ, CHARS_MADE, ITEMS = 1_000, 5_000, 10
"""The work that one step may do."""
_OBJECT = "[object Object]"
SPACE = "".join(
    map(chr, (*range(9, 14), 32, 160, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF))
)
_NUMERAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?Infinity", re.ASCII)
_BASED = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", re.ASCII)
_INDEX = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)
Visit = Callable[[int], None]
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {"<": lt, ">": gt, "<=": le, ">=": ge}


class Undefined:
    """The type of ``UNDEFINED``, the value of a missing member."""


UNDEFINED = Undefined()


def truthy(value: Any) -> bool:
    """Return JavaScript's truth value: empty lists and objects are true; 0, NaN and the empty text are false."""
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


def apply_prefix(operator: str, value: Any, visit: Visit) -> Any:
    """Apply a prefix operator."""
    match operator:
        case "!":
            return not truthy(value)
        case "typeof":
            return type_of(value)
        case "-":
            return -number_of(value, visit)
        case _:
            return number_of(value, visit)


def apply_infix(operator: str, left: Any, right: Any, visit: Visit) -> Any:
    """Apply an infix operator other than ``&&`` and ``||``, which may skip their right operand."""
    match operator:
        case "===":
            return strictly_equal(left, right)
        case "!==":
            return not strictly_equal(left, right)
        case "==":
            return _loosely_equal(left, right, visit)
        case "!=":
            return not _loosely_equal(left, right, visit)
    left, right = _primitive(left, visit), _primitive(right, visit)
    if operator in _COMPARISONS:
        if not (isinstance(left, str) and isinstance(right, str)):
            left, right = number_of(left, visit), number_of(right, visit)
        return bool(_COMPARISONS[operator](left, right))
    if operator == "+" and (isinstance(left, str) or isinstance(right, str)):
        return _concatenate(text_of(left, visit), text_of(right, visit), visit)
    return _calculate(operator, number_of(left, visit), number_of(right, visit))


def _primitive(value: Any, visit: Visit) -> Any:
    return text_of(value, visit) if isinstance(value, list | dict) or callable(value) else value


def _check_size(size: int) -> int:
    if size > MAX_TEXT:
        raise ConditionFault(f"Expression evaluation failed: it makes a text of more than {MAX_TEXT:,} characters")
    return size


def _concatenate(left: str, right: str, visit: Visit) -> str:
    visit(_check_size(len(left) + len(right)) // CHARS_MADE)
    return left + right


def strictly_equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | dict) or isinstance(right, list | dict) or callable(left) or callable(right):
        return left is right
    kind = type_of(left)
    if kind != type_of(right):
        return False
    return _float(left) == _float(right) if kind == "number" else bool(left == right)


def _loosely_equal(left: Any, right: Any, visit: Visit) -> bool:
    nothing = (None, UNDEFINED)
    if left is None or right is None or left is UNDEFINED or right is UNDEFINED:
        return any(left is each for each in nothing) and any(right is each for each in nothing)
    left_type, right_type = type_of(left), type_of(right)
    if left_type == right_type:
        return strictly_equal(left, right)
    if "object" in (left_type, right_type) and "function" in (left_type, right_type):
        return False
    left, right = _primitive(left, visit), _primitive(right, visit)
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return bool(number_of(left, visit) == number_of(right, visit))


def _calculate(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right == 0:
            return (
                math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
            )
        case "/":
            return left / right
        case _ if right == 0 or math.isinf(left):
            return math.nan
        case _:
            return math.fmod(left, right)


def number_of(value: Any, visit: Visit) -> float:
    """Return ``Number(value)``; NaN if the value is not a number."""
    match value:
        case None | bool() | int() | float():
            return _float(0 if value is None else value)
        case str():
            visit(len(value) // CHARS_READ)
            return _numeral(value.strip(SPACE))
        case list() | dict():
            return number_of(text_of(value, visit), visit)
        case _:
            return math.nan


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _numeral(text: str) -> float:
    if not text:
        return 0.0
    if _NUMERAL.fullmatch(text):
        return float(text)
    return _float(int(text, 0)) if _BASED.fullmatch(text) else math.nan


def text_of(value: Any, visit: Visit) -> str:
    """Return ``String(value)``. Raise ConditionFault if the text has more than 100,000 characters."""
    match value:
        case str():
            return value
        case Undefined():
            return "undefined"
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return _digits(_float(value))
        case list():
            return _join(value, visit)
        case _:
            return _OBJECT


def _digits(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number.is_integer() and abs(number) < 2**53:
        return str(int(number))
    if 1e-6 <= abs(number) < 1e21:
        plain = format(Decimal(repr(number)), "f")
        return plain.removesuffix(".0")
    return re.sub(r"e([+-])0*", r"e\1", repr(number).replace(".0e", "e"))


def _join(items: list[Any], visit: Visit) -> str:
    """Join nested lists as JavaScript does.

    Uses a loop, because a condition can nest lists deeper than Python's stack.
    """
    visit(len(items) // ITEMS)
    parts: list[str] = []
    size, open_ = 0, [enumerate(items)]
    while open_:
        for index, each in open_[-1]:
            if index:
                parts.append(",")
            if isinstance(each, list):
                visit(1 + len(each) // ITEMS)
                open_.append(enumerate(each))
                break
            parts.append("" if each is None or each is UNDEFINED else text_of(each, visit))
            size = _check_size(size + len(parts[-1]) + 1)
        else:
            open_.pop()
    visit(size // CHARS_MADE)
    return "".join(parts)


def member(value: Any, name: str) -> Any:
    """Return ``value.name``, including ``length`` and the items of lists and texts."""
    if isinstance(value, dict):
        return value.get(name, UNDEFINED)
    if isinstance(value, str | list):
        if name == "length":
            return len(value)
        if _INDEX.fullmatch(name) and int(name) < len(value):
            return value[int(name)]
    return UNDEFINED


def _last(text: str, part: str) -> int:
    """Return ``text.rfind(part)`` in linear time, which only ``find`` guarantees."""
    index = text[::-1].find(part[::-1])
    return -1 if index < 0 else len(text) - len(part) - index


_OF_TEXTS: dict[str, Callable[[str], str]] = {
    "toLowerCase": lambda text: text.lower(),
    "toUpperCase": lambda text: text.upper(),
    "trim": lambda text: text.strip(SPACE),
    "trimStart": lambda text: text.lstrip(SPACE),
    "trimEnd": lambda text: text.rstrip(SPACE),
}
_FINDING: dict[str, Callable[[str, str], Any]] = {
    "includes": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "indexOf": lambda text, part: text.find(part),
    "lastIndexOf": _last,
}
_ITERATING = ("some", "every", "find", "filter", "map", "reduce")


def call_method(owner: Any, method: str, arguments: list[Any], visit: Visit) -> Any:
    """Call a method and return its value.

    Raise ConditionFault if the method does not exist, or its arguments do not fit.
    """
    first = arguments[0] if arguments else UNDEFINED
    own = isinstance(owner, dict) and method in owner
    if method in ("toString", "valueOf") and not own and not (arguments and type_of(owner) == "number"):
        return text_of(owner, visit) if method == "toString" else owner
    finds = isinstance(owner, str) and method in _FINDING
    if finds or (isinstance(owner, list) and method in ("includes", "indexOf", "lastIndexOf")):
        if len(arguments) > 1:
            raise ConditionFault(f"Expression evaluation failed: {method} takes one argument")
        if not finds:
            return _index_of(owner, method, first, visit)
        part = text_of(first, visit)
        visit((len(owner) + len(part)) // CHARS_READ)
        return _FINDING[method](owner, part)
    if isinstance(owner, str) and method in _OF_TEXTS:
        visit(len(owner) // CHARS_READ)
        return _OF_TEXTS[method](owner)
    if isinstance(owner, list) and method in _ITERATING:
        if not callable(first):
            raise ConditionFault(f"Expression evaluation failed: {method} takes a function")
        return _iterate(owner, method, first, arguments[1:])
    raise ConditionFault(f"Expression evaluation failed: {method[:80]} is not a function")


def _index_of(owner: list[Any], method: str, item: Any, visit: Visit) -> Any:
    visit(len(owner) // ITEMS)
    if method == "includes" and item != item:  # noqa: PLR0124 - here, JavaScript treats NaN as equal
        return any(isinstance(each, float) and math.isnan(each) for each in owner)
    places = [index for index, each in enumerate(owner) if strictly_equal(each, item)]
    if method == "includes":
        return bool(places)
    return -1 if not places else places[0] if method == "indexOf" else places[-1]


def _iterate(owner: list[Any], method: str, function: Callable[..., Any], more: list[Any]) -> Any:
    match method:
        case "some":
            return any(truthy(function(each, index, owner)) for index, each in enumerate(owner))
        case "every":
            return all(truthy(function(each, index, owner)) for index, each in enumerate(owner))
        case "find":
            return next((each for index, each in enumerate(owner) if truthy(function(each, index, owner))), UNDEFINED)
        case "filter":
            return [each for index, each in enumerate(owner) if truthy(function(each, index, owner))]
        case "map":
            return [function(each, index, owner) for index, each in enumerate(owner)]
    if not more and not owner:
        raise ConditionFault("Expression evaluation failed: reduce of an empty list without a first value")
    result, start = (more[0], 0) if more else (owner[0], 1)
    for index in range(start, len(owner)):
        result = function(result, owner[index], index, owner)
    return result
