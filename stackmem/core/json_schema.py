"""Checks a value against a JSON Schema, as far as schemas of results go, and names the first fault.

Known: type, enum, const, properties, required, additionalProperties, items, minItems, maxItems, minLength, maxLength,
minimum, maximum, exclusiveMinimum, exclusiveMaximum, pattern, anyOf, oneOf, allOf, not, and ``$ref`` into ``$defs``.
Other words of a schema ask nothing here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .strict_json import strict_value
from .text import whole_value

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_DEEPEST = 100
_FENCE = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


def read_json(text: str) -> tuple[Any, str]:
    """``(value, fault)`` of a text that is one JSON value, also one in a fence."""
    fenced = _FENCE.fullmatch(text)
    try:
        value = strict_value(fenced[1] if fenced else text)
        return whole_value(value, _DEEPEST), ""
    except (ValueError, RecursionError) as error:
        told = error.msg if isinstance(error, json.JSONDecodeError) else str(error) or "it is nested too deeply"
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return None, f"it is no JSON value ({told}{where})"


def first_fault(value: Any, schema: Any) -> str:
    """The first thing in ``value`` that the schema does not allow, by its place; empty where it fits."""
    try:
        return next(_faults(value, schema, "$", schema, 0), "")
    except re.error as error:
        return f"the schema's own pattern cannot be read ({error})"


def _faults(value: Any, schema: Any, place: str, whole: Any, deep: int) -> Iterator[str]:
    if schema is False:
        yield f"{place} is not allowed"
    if not isinstance(schema, dict):
        return
    if deep > _DEEPEST:
        yield f"{place} is nested more than {_DEEPEST} deep"
        return
    if isinstance(schema.get("$ref"), str):
        yield from _faults(value, _resolved(schema["$ref"], whole), place, whole, deep + 1)
    yield from _type_fault(value, schema, place)
    yield from _members(value, schema, place, whole, deep)
    yield from _sizes(value, schema, place)
    yield from _combined(value, schema, place, whole, deep)


def _resolved(ref: str, whole: Any) -> Any:
    found = whole
    for name in ref.removeprefix("#").strip("/").split("/"):
        if name:
            found = found.get(name, True) if isinstance(found, dict) else True
    return found


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _type_fault(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted] if isinstance(wanted, str) else []
    if names and not any(_is(value, name) for name in names):
        yield f"{place} must be of type {' or '.join(names)}, is {_named(value)}"
    if isinstance(schema.get("enum"), list) and not any(_same(value, each) for each in schema["enum"]):
        yield f"{place} must be one of {_short(schema['enum'])}, is {_short(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{place} must be {_short(schema['const'])}, is {_short(value)}"


def _members(value: Any, schema: dict[str, Any], place: str, whole: Any, deep: int) -> Iterator[str]:
    if isinstance(value, dict):
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if name not in value:
                yield f"{place}.{name} is missing"
        for name, member in value.items():
            rule = known.get(name, schema.get("additionalProperties", True))
            if rule is False:
                yield f"{place}.{str(name)[:80]} is not asked for; known: {', '.join(known)}"
            else:
                yield from _faults(member, rule, f"{place}.{str(name)[:80]}", whole, deep + 1)
    elif isinstance(value, list | tuple) and "items" in schema:
        for index, item in enumerate(value):
            yield from _faults(item, schema["items"], f"{place}[{index}]", whole, deep + 1)


_SIZES: tuple[tuple[str, tuple[type, ...], Callable[[Any], Any], str, int], ...] = (
    ("minItems", (list, tuple), len, "at least {} items", -1),
    ("maxItems", (list, tuple), len, "at most {} items", 1),
    ("minLength", (str,), len, "at least {} characters", -1),
    ("maxLength", (str,), len, "at most {} characters", 1),
    ("minimum", (int, float), lambda number: number, "at least {}", -1),
    ("maximum", (int, float), lambda number: number, "at most {}", 1),
)


def _sizes(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    for word, kinds, measure, told, way in _SIZES:
        bound: Any = schema.get(word)
        if _number(bound) and isinstance(value, kinds) and not isinstance(value, bool):
            size: Any = measure(value)
            if (size > bound) if way > 0 else (size < bound):
                yield f"{place} must be {told.format(bound)}, is {size if kinds != (int, float) else _short(value)}"
    if _number(value):
        if _number(low := schema.get("exclusiveMinimum")) and value <= low:
            yield f"{place} must be above {low}, is {_short(value)}"
        if _number(high := schema.get("exclusiveMaximum")) and value >= high:
            yield f"{place} must be below {high}, is {_short(value)}"
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and not re.search(pattern, value):
        yield f"{place} must match {pattern!r}, is {_short(value)}"


def _combined(value: Any, schema: dict[str, Any], place: str, whole: Any, deep: int) -> Iterator[str]:
    for rule in _rules(schema, "allOf"):
        yield from _faults(value, rule, place, whole, deep + 1)
    for word in ("anyOf", "oneOf"):
        rules = _rules(schema, word)
        found = [next(_faults(value, rule, place, whole, deep + 1), "") for rule in rules]
        fits = found.count("")
        if rules and not fits:
            yield found[0] if len(found) == 1 else f"{place} fits none of {len(found)} forms; of the first: {found[0]}"
        elif word == "oneOf" and fits > 1:
            yield f"{place} fits {fits} forms where one is asked for"
    if "not" in schema and not next(_faults(value, schema["not"], place, whole, deep + 1), ""):
        yield f"{place} has the form that is ruled out"


def _rules(schema: dict[str, Any], word: str) -> list[Any]:
    rules = schema.get(word)
    return rules if isinstance(rules, list) else []


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: ``1`` is ``1.0`` and no boolean is a number."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _named(value: Any) -> str:
    return next(
        (name for name in ("null", "boolean", "string", "integer", "number", "array", "object") if _is(value, name)),
        type(value).__name__,
    )


def _short(value: Any) -> str:
    told = json.dumps(value, ensure_ascii=False, default=repr)
    return told if len(told) <= 80 else f"{told[:79]}…"
