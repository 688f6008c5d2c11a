"""The tools, one class each: the docstring is what the model reads, the schema derives from the fields.

Numbers stand as ``{{slots}}`` and are filled from the run's budgets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, json
from msgspec.structs import FieldInfo, fields

from .entries import StoreEntry
from .messages import ToolCall, ToolSpec
from .more_tools import LookupCall, PopLess, Prompted, PushLess
from .slots import fill
from .tool_parameters import (
    ChunkLine,
    Constraint,
    Context,
    Name,
    PointedObjective,
    PointedResult,
    ReturnSpec,
    Source,
    Store,
    Verify,
)


class ReadFile(Struct, frozen=True, tag="read_file"):
    """Read a text file, whole or its lines start_line to end_line (from 1, inclusive). A long result is clipped in
    the middle.
    """

    path: str
    start_line: int | None = None
    end_line: int | None = None


class WriteFile(Struct, frozen=True, tag="write_file"):
    """Write a whole file; its folder must exist."""

    path: str
    content: str


class ListFiles(Struct, frozen=True, tag="list_files"):
    """List a folder, two levels deep; without a path, the workspace."""

    path: str = "."


class RunCommand(Struct, frozen=True, tag="run_command"):
    """Run a bash command line in the workspace. After {{command_seconds}} seconds it and all that it started
    are killed. Output and errors come together, clipped in the middle, with the exit code.
    """

    command: str


class PushFrame(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees its registers, the context and the heap index, nothing
    else; its result comes back as the result of this call. Anything over budget is refused.
    """

    name: Name
    objective: PointedObjective
    context: Context
    return_spec: ReturnSpec
    constraint: Constraint = ""
    verify: Verify = ""
    store: Store = ()


class PopFrame(Struct, frozen=True, tag="pop_frame"):
    """End the running frame: its conversation is discarded, its result goes to the parent. Popping the root ends the
    run.
    """

    result: PointedResult
    store: Store = ()


class EndRun(Struct, frozen=True, tag="pop_frame"):
    """End the run with its result. Call it once the task is done and verified, or cannot be done."""

    result: Annotated[
        str,
        Meta(description="What was done, how it was verified, what is open; at most {{root_result_chars}} characters."),
    ]


class HeapAlloc(Struct, frozen=True, tag="heap_alloc"):
    """Store a new chunk."""

    name: Name
    content: str
    description: ChunkLine = ""
    source: Source = ""


class HeapRead(Struct, frozen=True, tag="heap_read"):
    """Load a chunk, or its lines start_line to end_line, into this frame's conversation."""

    name: str
    start_line: int | None = None
    end_line: int | None = None


class HeapWrite(Struct, frozen=True, tag="heap_write"):
    """Replace a chunk's content. A description or source that is left out stays; STALE is cleared."""

    name: str
    content: str
    description: str | None = None
    source: str | None = None


class HeapFree(Struct, frozen=True, tag="heap_free"):
    """Delete a chunk."""

    name: str


WorkspaceCall = ReadFile | WriteFile | ListFiles | RunCommand
HeapCall = HeapAlloc | HeapRead | HeapWrite | HeapFree
PushCall = PushFrame | PushLess
PopCall = PopFrame | EndRun | PopLess
Call = WorkspaceCall | PushCall | Prompted | PopCall | HeapCall | LookupCall

_WANTED: dict[Any, str] = {
    str: "a string",
    str | None: "a string",
    int: "an integer",
    int | None: "an integer",
    tuple[StoreEntry, ...]: "a list of {name, content, description, source}",
}


def tool_name(call: type[Call] | Call) -> str:
    return str(call.__struct_config__.tag)


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
