"""Repairs arguments with the wrong form, and reports each repair.

Small models copy schema keywords next to the values, wrap values in ``properties``, and write numbers as text. Only
arguments with a single possible meaning are repaired; the machine refuses the rest with an explanation.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace

from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.core.text import whole_value
from stackmem.core.tool_schemas import field_types

_SCHEMA_WORDS = frozenset({"type", "properties", "required", "additionalProperties", "$schema", "title", "description"})
_INTEGER = re.compile(r"\s*-?\d{1,15}(?:\.0+)?\s*")
_TRUTH = {"true": True, "false": False}
_CONTAINERS = {"array": list, "object": dict}


def mend_arguments(call: ToolCall, spec: ToolSpec) -> tuple[ToolCall, tuple[str, ...]]:
    """Return the call with repaired arguments, and a sentence for each repair."""
    if call.malformed is not None or not isinstance(call.arguments, dict):
        return call, ()
    types, required = field_types(spec)
    for name, value in call.arguments.items():
        if types.get(name) != "string" or type(value) is not str:
            break
    else:  # most calls have only texts
        return call, ()
    arguments, notes = dict(call.arguments), []
    if isinstance(arguments.get(""), list):  # positional arguments
        values = arguments.pop("")
        free = [name for name in types if name not in arguments]
        # More values than names: which one is too many is a guess, so the model gets an error.
        if len(values) > len(free):
            return replace(call, arguments=None, malformed=repr(values)), ()
        arguments = {**dict(zip(free, values, strict=False)), **arguments}
        notes.append("named the positional arguments in the order of the schema")
    inner = arguments.get("properties")
    if isinstance(inner, dict) and "properties" not in types and inner.keys() <= types.keys():
        # The model filled in the schema itself; an object that matches the schema was expected.
        values = {name: _filled_in(value) for name, value in inner.items()}
        if not any(isinstance(value, dict) for value in values.values()):
            arguments = {**values, **{name: value for name, value in arguments.items() if name in types}}
            notes.append("took the arguments from the properties of a copied schema")
    copied = [name for name in arguments if name in _SCHEMA_WORDS and name not in types]
    # Only if all required arguments are there: otherwise these words may be misnamed arguments.
    if copied and required <= arguments.keys():
        arguments = {name: value for name, value in arguments.items() if name not in copied}
        notes.append(f"left out words of the schema: {', '.join(copied)}")
    for name, value in arguments.items():
        mended = _converted(value, types.get(name, ""))
        if mended is not value:
            arguments[name] = mended
            notes.append(f"read {name} {value!r:.40} as {mended!r}")
    return (replace(call, arguments=arguments), tuple(notes)) if notes else (call, ())


def _filled_in(value: Any) -> Any:
    """Unwrap ``{"type": "string", "value": X}`` to X."""
    if isinstance(value, dict) and value.keys() <= {"type", "value", "description", "default"}:
        return value.get("value", value.get("default", value))
    return value


def _converted(value: Any, kind: str) -> Any:
    if kind == "integer":
        # Up to 1e15 every integer has an exact float; beyond, the number could be another one.
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            return int(value)
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            return int(float(value)) if "." in value else int(value)
    if kind == "boolean" and isinstance(value, str):
        return _TRUTH.get(value.strip().lower(), value)
    # bool is a subclass of int, but a truth value is not a number that lost its quotes.
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    if kind in _CONTAINERS and isinstance(value, str):
        return _container(value, _CONTAINERS[kind])
    return value


def _container(text: str, kind: type) -> Any:
    """Parse a list or object from text, as in XML calls; return the text unchanged if that fails."""
    try:
        value = whole_value(json.loads(text))
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, kind) else text
