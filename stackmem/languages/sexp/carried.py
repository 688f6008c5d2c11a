"""Values on their way out of an evaluation: as JSON, whatever they are."""

from __future__ import annotations

import math
from typing import Any

from .budget import Budget, exhausted
from .nodes import Symbol
from .values import CYCLE, contained, is_null, written

DEEPEST = 200
"""Levels that go out as JSON; what lies deeper goes as text."""


def as_json(value: Any, budget: Budget) -> Any:
    """The value as JSON: nil alone is null, a symbol its name, a cycle and a function their written form.

    Raises:
        TaskError: It is nested too deeply.

    """
    if is_null(value):
        return None
    if not isinstance(value, list | tuple | dict):
        return _plain(value)
    list(contained(value, budget))
    made: Any = {} if isinstance(value, dict) else []
    path: list[tuple[Any, Any, Any]] = [(value, iter(_pairs(value)), made)]
    open_ = {id(value)}
    count = 0
    while path:
        old, pairs, new = path[-1]
        pair = next(pairs, None)
        if pair is None:
            path.pop()
            open_.discard(id(old))
            continue
        key, item = pair
        count += 1
        if count > budget.items:
            raise exhausted("items", budget.items, "items in one value")
        put: Any
        if not isinstance(item, list | tuple | dict):
            put = _plain(item)
        elif id(item) in open_:
            put = CYCLE
        elif len(path) >= DEEPEST:
            put = written(item, budget.text)
        else:
            put = {} if isinstance(item, dict) else []
            open_.add(id(item))
            path.append((item, iter(_pairs(item)), put))
        if isinstance(new, dict):
            new[str(key)] = put
        else:
            new.append(put)
    return made


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]


def _plain(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case Symbol():
            return str.__str__(value)
        case str():
            return value
        case int() if -(1 << 63) <= value < 1 << 64:
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            return written(value)
