"""The tools, one class each: the docstring is what the model reads, the schema derives from the fields.

Numbers stand as ``{{slots}}`` and are filled from the run's budgets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, json
from msgspec.structs import FieldInfo, fields

from .entries import Store as _Store
from .entries import StoreEntry
from .messages import ToolCall, ToolSpec
from .more_calls import LookupCall, PopLess, Prompted, PushLess
from .slots import fill


class ReadFile(Struct, frozen=True, tag="read_file"):
    """Read a text file of the workspace, whole or from start_line to end_line (counted from 1, both inclusive).
    Long results are clipped in the middle; ask for a range to see the rest.
    """

    path: Annotated[str, Meta(description="Path in the workspace.")]
    start_line: Annotated[int | None, Meta(description="First line to show, from 1.")] = None
    end_line: Annotated[int | None, Meta(description="Last line to show.")] = None


class WriteFile(Struct, frozen=True, tag="write_file"):
    """Write a file of the workspace, replacing what it held. Its folder must exist."""

    path: Annotated[str, Meta(description="Path in the workspace.")]
    content: Annotated[str, Meta(description="The whole new content.")]


class ListFiles(Struct, frozen=True, tag="list_files"):
    """List a folder of the workspace, two levels deep."""

    path: Annotated[str, Meta(description="Folder; the workspace itself where left out.")] = "."


class RunCommand(Struct, frozen=True, tag="run_command"):
    """Run a shell command in the workspace, sandboxed, for at most {{command_seconds}} seconds; then it and everything
    it started is gone. Output and errors come back together, clipped in the middle, with the exit code.
    """

    command: Annotated[str, Meta(description="A bash command line.")]


class PushFrame(Struct, frozen=True, tag="push_frame"):
    """Start a child frame with a clean conversation for a distinct phase of several steps. The child sees its
    registers, the context and the heap index, and nothing of your conversation; its result comes back as the result of
    this call.
    Store on the heap what it needs, in this same call by `store`, and name the chunks in the objective.
    At most {{depth}} frames deep. Anything over its budget is refused.
    """

    name: Annotated[str, Meta(description="Short name: letters, digits, _ . - / (at most {{name_chars}}).")]
    objective: Annotated[
        str,
        Meta(
            description="R0: what to accomplish and how to verify it, with heap pointers "
            "(at most {{intent_chars}} characters)."
        ),
    ]
    context: Annotated[
        str, Meta(description="Paths, constraints, pointers; no large data (at most {{context_chars}} characters).")
    ]
    return_spec: Annotated[
        str, Meta(description="R1: what the result must report (at most {{return_chars}} characters).")
    ]
    constraint: Annotated[
        str,
        Meta(
            description="R3: free text, or enforced limits such as 'steps=20 tokens=30k seconds=120' "
            "(at most {{constraint_chars}} characters)."
        ),
    ] = ""
    verify: Annotated[
        str,
        Meta(
            description="A command run when the frame pops; its exit code is stamped on the result "
            "(at most {{verify_chars}} characters)."
        ),
    ] = ""
    store: _Store = ()


class PopFrame(Struct, frozen=True, tag="pop_frame"):
    """End the running frame: its conversation is discarded and the result goes to its parent. Popping the root ends the
    run. Store first, or in this same call by `store`, whatever a later frame would have to find out again.
    """

    result: Annotated[
        str,
        Meta(
            description="Status in the shape R1 asks for, with heap pointers instead of data "
            "(at most {{result_chars}} characters; the root's {{root_result_chars}})."
        ),
    ]
    store: _Store = ()


class EndRun(Struct, frozen=True, tag="pop_frame"):
    """End the run with its result. Call it once the task is done and verified, or cannot be done."""

    result: Annotated[
        str,
        Meta(
            description="What was done, how it was verified, what is open (at most {{root_result_chars}} characters)."
        ),
    ]


class HeapAlloc(Struct, frozen=True, tag="heap_alloc"):
    """Store a new named chunk that every later frame can read. Only its line in the index costs anything per step."""

    name: Annotated[str, Meta(description="New chunk name: letters, digits, _ . - / (at most {{name_chars}}).")]
    content: Annotated[str, Meta(description="What to keep.")]
    description: Annotated[
        str,
        Meta(description="One line for the index: what a reader will find (at most {{description_chars}} characters)."),
    ] = ""
    source: Annotated[
        str, Meta(description="Workspace file the content describes; the index marks the chunk STALE once it changes.")
    ] = ""


class HeapRead(Struct, frozen=True, tag="heap_read"):
    """Load a chunk's content into this frame's conversation; it stays until the frame pops."""

    name: Annotated[str, Meta(description="Chunk name, as in the index.")]
    start_line: Annotated[int | None, Meta(description="First line to show, from 1.")] = None
    end_line: Annotated[int | None, Meta(description="Last line to show.")] = None


class HeapWrite(Struct, frozen=True, tag="heap_write"):
    """Replace the content of an existing chunk. Leave description or source out to keep them; STALE is cleared."""

    name: Annotated[str, Meta(description="Chunk name, as in the index.")]
    content: Annotated[str, Meta(description="The whole new content.")]
    description: Annotated[str | None, Meta(description="New line for the index.")] = None
    source: Annotated[str | None, Meta(description="New workspace file the content describes.")] = None


class HeapFree(Struct, frozen=True, tag="heap_free"):
    """Delete a chunk that no later frame needs; its characters can be used again."""

    name: Annotated[str, Meta(description="Chunk name, as in the index.")]


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
        meta = next(extra for extra in described[name].__metadata__ if isinstance(extra, Meta))
        if hint == tuple[StoreEntry, ...]:
            properties[name] = {"type": "array", "items": _schema(StoreEntry)}
        elif get_origin(hint) is Literal:
            properties[name] = {"type": "string", "enum": list(get_args(hint))}
        else:
            properties[name] = {"type": "integer" if hint in (int, int | None) else "string"}
        properties[name]["description"] = meta.description
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
