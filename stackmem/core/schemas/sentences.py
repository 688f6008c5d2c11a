"""Messages about values that do not fit their schema: one sentence for the first fault, in the order of the value.

Order at one place: what it must be, what it lacks, its members in their order, its size, the forms that it may have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stackmem.core.text import mark_cut

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_BEFORE = ("type", "enum", "const", "falseSchema", "required", "dependentRequired", "propertyNames")
_AMONG = ("additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems")
_BEHIND = (
    "uniqueItems", "contains", "minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "anyOf", "oneOf", "not",
)  # fmt: skip
_SIZES = {
    "minItems": "at least {} items", "maxItems": "at most {} items", "minProperties": "at least {} members",
    "maxProperties": "at most {} members", "minLength": "at least {} characters", "maxLength": "at most {} characters",
}  # fmt: skip
_BOUNDS = {
    "minimum": "must be at least {}", "maximum": "must be at most {}", "exclusiveMinimum": "must be above {}",
    "exclusiveMaximum": "must be below {}", "multipleOf": "must be a multiple of {}",
}  # fmt: skip
_MISSING = object()


def first_sentence(errors: Iterable[ValidationError], value: Any, schema: Any) -> str:
    """Return the sentence for the first of the errors. There is at least one."""
    return _Telling(value, schema).first(errors)


class _Telling:
    """Builds sentences about one value, or about a name in it that the schema has a rule for."""

    def __init__(self, value: Any, schema: Any, name: str | None = None) -> None:
        self._value, self._schema, self._name = value, schema, name
        # positions of the members by the id of their mapping, which the value keeps alive
        self._numbers: dict[int, dict[str, int]] = {}

    def first(self, errors: Iterable[ValidationError]) -> str:
        return self._sentence(min(errors, key=self._order))

    def _order(self, error: ValidationError) -> tuple[tuple[int, int], ...]:
        """Return the sort key of an error: the positions on the path to it, then its rank at its place."""
        path: list[tuple[int, int]] = []
        part = self._value
        for step in error.instance_path:
            path.append((0, self._number(part, step)))
            part = _inner(part, step)
        word = error.kind.name
        if word in _BEFORE:
            return (*path, (-1, _BEFORE.index(word)))
        if word in _AMONG:
            return (*path, (0, self._number(part, _unexpected(error, part))))
        return (*path, (1, _BEHIND.index(word) if word in _BEHIND else len(_BEHIND)))

    def _number(self, holder: Any, step: str | int) -> int:
        if isinstance(step, int) or not isinstance(holder, dict):
            return step if isinstance(step, int) else 0
        if id(holder) not in self._numbers:
            self._numbers[id(holder)] = {name: number for number, name in enumerate(holder)}
        return self._numbers[id(holder)].get(step, 0)

    def _sentence(self, error: ValidationError) -> str:
        location, part = _json_path(error.instance_path), _at(self._value, error.instance_path)
        if self._name is not None:
            location, part = f"the name {_short(self._name)} in {location}", self._name
        word, bound = error.kind.name, _bound(error, self._schema)
        if word == "propertyNames":
            inner = error.kind.value
            return _Telling(self._value, self._schema, str(inner.instance)).first([inner])
        if word in ("anyOf", "oneOf"):
            return self._forms(error, location)
        if word in _AMONG or word == "contains":
            return f"{location}{_of_members(error, part, self._schema)}"
        if word in _SIZES:
            return f"{location} must be {_SIZES[word].format(bound)}, is {len(part)}"
        if word in _BOUNDS:
            return f"{location} {_BOUNDS[word].format(bound)}, is {_short(part)}"
        return f"{location}{_of_word(error, bound, part)}"

    def _forms(self, error: ValidationError, location: str) -> str:
        forms = error.kind.value
        fits = sum(not form for form in forms)
        if fits:
            return f"{location} fits {fits} forms, but must fit exactly one"
        message = self.first(forms[0])
        return message if len(forms) == 1 else f"{location} fits none of {len(forms)} forms; of the first: {message}"


def _of_word(error: ValidationError, bound: Any, part: Any) -> str:
    match error.kind.name:
        case "type":
            names = bound if isinstance(bound, list) else [bound]
            return f" must be of type {' or '.join(map(str, names))}, is {_type_name(part)}"
        case "enum":
            return f" must be one of {_short(bound)}, is {_short(part)}"
        case "const":
            return f" must be {_short(bound)}, is {_short(part)}"
        case "required" | "dependentRequired":
            return f".{str(error.kind.value)[:80]} is missing"
        case "falseSchema":
            return " is not allowed"
        case "not":
            return " has the form that is ruled out"
        case "uniqueItems":
            return " must not have the same item twice"
        case "pattern" if type(error.kind).__name__ != "Pattern":
            return " cannot be checked: the schema's pattern takes too many steps"
        case "pattern":
            return f" must match {bound!r}, is {_short(part)}"
        case "contentEncoding" | "contentMediaType" as word:
            return f" must be {_short(bound)} ({word})"
        case word:
            return f" does not fit {word!r} of the schema"


def _of_members(error: ValidationError, part: Any, schema: Any) -> str:
    """Describe members and items that are not allowed, or missing items."""
    holder = _at(schema, error.schema_path[:-1])
    rules = holder if isinstance(holder, dict) else {}
    match error.kind.name:
        case "additionalProperties":
            declared = rules.get("properties")
            names = ", ".join(declared if isinstance(declared, dict) else ())
            return f".{str(_unexpected(error, part))[:80]} is not asked for; known: {mark_cut(names, 2_000)}"
        case "unevaluatedProperties":
            return f".{str(_unexpected(error, part))[:80]} is not asked for"
        case "contains" if error.schema_path[-1:] == ["maxContains"]:
            return f" must have at most {rules.get('maxContains')} items of the form that `contains` asks for"
        case "contains":
            return f" must have at least {rules.get('minContains', 1)} items of the form that `contains` asks for"
        case _:
            return f"[{_unexpected(error, part)}] is not allowed"


def _unexpected(error: ValidationError, part: Any) -> str | int:
    """Return the first member or item that is not allowed."""
    unexpected = error.kind.value
    if isinstance(unexpected, int):
        return unexpected
    names = set(unexpected)
    return next((name for name in part if name in names), "") if isinstance(part, dict) else min(names, default=0)


def _bound(error: ValidationError, schema: Any) -> Any:
    """Return the value of the keyword as it is written in the schema."""
    value = _at(schema, error.schema_path)
    return error.kind.value if value is _MISSING else value


def _at(schema: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        schema = _inner(schema, step)
    return schema


def _inner(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return _MISSING


def _json_path(path: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:79]}…"
