"""The methods that conditions may call, of texts and of lists; none changes anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .condition_syntax import Fault
from .condition_values import CHARS_READ, ITEMS, SPACE, UNDEFINED, Visit, strictly_equal, text_of, truthy, type_of


def _last(text: str, part: str) -> int:
    """``text.rfind(part)`` in time that grows with the length alone, which only ``find`` takes."""
    found = text[::-1].find(part[::-1])
    return -1 if found < 0 else len(text) - len(part) - found


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


def called(owner: Any, method: str, arguments: list[Any], visit: Visit) -> Any:
    """What a method gives.

    Raises:
        Fault: There is no such method, or what it is given does not fit.

    """
    first = arguments[0] if arguments else UNDEFINED
    own = isinstance(owner, dict) and method in owner
    if method in ("toString", "valueOf") and not own and not (arguments and type_of(owner) == "number"):
        return text_of(owner, visit) if method == "toString" else owner
    finds = isinstance(owner, str) and method in _FINDING
    if finds or (isinstance(owner, list) and method in ("includes", "indexOf", "lastIndexOf")):
        if len(arguments) > 1:
            raise Fault(f"Expression evaluation failed: {method} takes one argument")
        if not finds:
            return _place(owner, method, first, visit)
        part = text_of(first, visit)
        visit((len(owner) + len(part)) // CHARS_READ)
        return _FINDING[method](owner, part)
    if isinstance(owner, str) and method in _OF_TEXTS:
        visit(len(owner) // CHARS_READ)
        return _OF_TEXTS[method](owner)
    if isinstance(owner, list) and method in _ITERATING:
        if not callable(first):
            raise Fault(f"Expression evaluation failed: {method} takes a function")
        return _iterated(owner, method, first, arguments[1:])
    raise Fault(f"Expression evaluation failed: {method[:80]} is not a function")


def _place(owner: list[Any], method: str, wanted: Any, visit: Visit) -> Any:
    visit(len(owner) // ITEMS)
    if method == "includes" and wanted != wanted:  # noqa: PLR0124 - of all places only here NaN equals itself
        return any(isinstance(each, float) and math.isnan(each) for each in owner)
    places = [index for index, each in enumerate(owner) if strictly_equal(each, wanted)]
    if method == "includes":
        return bool(places)
    return -1 if not places else places[0] if method == "indexOf" else places[-1]


def _iterated(owner: list[Any], method: str, function: Callable[..., Any], more: list[Any]) -> Any:
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
        raise Fault("Expression evaluation failed: reduce of an empty list without a first value")
    made, start = (more[0], 0) if more else (owner[0], 1)
    for index in range(start, len(owner)):
        made = function(made, owner[index], index, owner)
    return made
