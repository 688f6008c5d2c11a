"""What a model is shown of a tool, and how its call is read against that."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct, json
from msgspec.structs import FieldInfo, fields

from .messages import ToolCall, ToolSpec
from .text import fill
from .tools import Call, StoreEntry, tool_name

_WANTED: dict[Any, str] = {
    str: "a string",
    str | None: "a string",
    int: "an integer",
    int | None: "an integer",
    tuple[StoreEntry, ...]: "a list of {name, content, description, source}",
}


def spec(call: type[Call], slots: dict[str, str]) -> ToolSpec:
    """The tool as a model is shown it; equal slots give equal bytes."""
    description = " ".join((call.__doc__ or "").split())
    schema = json.encode(_schema(call), order="deterministic").decode()
    return ToolSpec(tool_name(call), fill(description, slots), fill(schema, slots))


def parse(call: ToolCall, offered: tuple[type[Call], ...]) -> Call | tuple[str, str]:
    """The call as its class, or ``(code, reason)`` why it cannot be one; every fault is named."""
    known = {tool_name(kind): kind for kind in offered}
    if call.name not in known:
        return "unknown_tool", f"there is no tool {call.name[:80]!r}; the tools are {', '.join(known)}"
    kind = known[call.name]
    if call.malformed is not None or not isinstance(call.arguments, dict):
        return "bad_arguments", f"the arguments of {call.name} must be one JSON object with {_accepted(kind)}"
    faults = _faults(kind, call.arguments, "")
    if faults:
        return "bad_arguments", f"{call.name}: {'; '.join(faults)}. Accepted: {_accepted(kind)}"
    return _build(kind, call.arguments)


def _faults(kind: type[Struct], given: dict[str, Any], place: str) -> list[str]:
    """What keeps ``given`` from being ``kind``, in the order of its fields."""
    found = []
    hints = _hints(kind)
    for field in _fields(kind):
        value = given.get(field.name)
        if value is not None:
            found += _mistyped(hints[field.name], value, place + field.name)
        elif field.required:
            found.append(f"{place}{field.name} is missing")
    found += [f"{place}{str(name)[:80]} is no parameter" for name in given if name not in hints]
    return found


def _mistyped(hint: object, value: object, place: str) -> list[str]:
    if hint == tuple[StoreEntry, ...] and isinstance(value, list):
        found = []
        for index, entry in enumerate(value):
            if isinstance(entry, dict):
                found += _faults(StoreEntry, entry, f"{place}[{index}].")
            else:
                found.append(f"{place}[{index}] must be an object, is {_json_type(entry)}")
        return found
    if hint in (int, int | None):
        right = isinstance(value, int) and not isinstance(value, bool)
    elif get_origin(hint) is Literal:
        if isinstance(value, str) and value not in get_args(hint):
            return [f"{place} must be {_wanted(hint)}, is {value[:80]!r}"]
        right = isinstance(value, str)
    else:
        right = hint in (str, str | None) and isinstance(value, str)
    return [] if right else [f"{place} must be {_wanted(hint)}, is {_json_type(value)}"]


def _wanted(hint: object) -> str:
    return f"one of {', '.join(get_args(hint))}" if get_origin(hint) is Literal else _WANTED[hint]


def _build(kind: type[Call], given: dict[str, Any]) -> Call:
    values = {name: value for name, value in given.items() if value is not None}
    if "store" in values:
        values["store"] = tuple(
            StoreEntry(**{name: value for name, value in entry.items() if value is not None})
            for entry in values["store"]
        )
    return kind(**values)


@lru_cache
def _fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return fields(kind)


@lru_cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    return get_type_hints(kind)


@lru_cache
def _accepted(kind: type[Struct]) -> str:
    hints = _hints(kind)
    named = [
        f"{field.name} ({_wanted(hints[field.name])}{'' if field.required else ', optional'})" for field in fields(kind)
    ]
    return ", ".join(named) or "no parameters"


def _schema(kind: type[Struct]) -> dict[str, Any]:
    described = get_type_hints(kind, include_extras=True)
    properties: dict[str, Any] = {}
    for name, hint in _hints(kind).items():
        if hint == tuple[StoreEntry, ...]:
            properties[name] = {"type": "array", "items": _schema(StoreEntry)}
        elif get_origin(hint) is Literal:
            properties[name] = {"type": "string", "enum": list(get_args(hint))}
        else:
            properties[name] = {"type": "integer" if hint in (int, int | None) else "string"}
        for extra in getattr(described[name], "__metadata__", ()):
            properties[name]["description"] = extra.description
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields(kind) if field.required],
        "additionalProperties": False,
    }


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {
        str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object",
    }  # fmt: skip
    return names.get(type(value), "null")
