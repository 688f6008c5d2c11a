"""The messages of a program's process. They come from the sandbox, so each is checked before it is used."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from stackmem.core.errors import Halted


class EnterNote(Struct, frozen=True, tag="enter", tag_field="note", forbid_unknown_fields=True):
    """A step began."""

    name: str
    intent: str
    line: int


class LeaveNote(Struct, frozen=True, tag="leave", tag_field="note", forbid_unknown_fields=True):
    """A step ended. ``result`` is its value as text, or its error."""

    name: str
    result: str
    failed: bool


class PrintedNote(Struct, frozen=True, tag="say", tag_field="note", forbid_unknown_fields=True):
    """The program printed a text."""

    text: str


class ProcessFrame(Struct, frozen=True, forbid_unknown_fields=True):
    """A frame of the process: where it is, and its variables as a debugger shows them."""

    name: str
    file: str
    line: int
    variables: dict[str, Any] = {}


class ProcessLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that ran, with the frames around it, innermost first."""

    kind: Literal["entered", "line", "left"]
    frames: list[ProcessFrame]


class ProcessMessage(Struct, frozen=True):
    """One request of the process, with what happened since the previous one."""

    call: str
    arguments: dict[str, Any]
    file: str
    line: int
    function: str
    notes: list[EnterNote | LeaveNote | PrintedNote] = []
    lines: list[ProcessLine] = []  # since the previous request, if a debugger is attached
    frames: list[ProcessFrame] = []


class AskRequest(Struct, frozen=True, forbid_unknown_fields=True):
    prompt: str
    schema: dict[str, Any] | None
    system: str
    model: str
    name: str


class AskAllRequest(Struct, frozen=True, forbid_unknown_fields=True):
    prompts: list[str]
    schema: dict[str, Any] | None
    system: str
    model: str
    name: str
    most: int


class WorkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    task: str
    name: str
    inputs: dict[str, Any]
    returns: str
    schema: dict[str, Any] | None
    model: str


class ShellRequest(Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    timeout: float | None
    working_directory: str
    env: dict[str, str]


class QuestionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    question: str
    options: list[str]


class PathRequest(Struct, frozen=True, forbid_unknown_fields=True):
    path: str


class WriteRequest(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    content: str


class KeepRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    content: str
    description: str
    source: str


class NameRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class CalleeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    inputs: dict[str, Any]


class OwnToolRequest(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any]


class WaitRequest(Struct, frozen=True, forbid_unknown_fields=True):
    seconds: float


class EmptyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without arguments."""


class ValueRequest(Struct, frozen=True, forbid_unknown_fields=True):
    value: Any


class ErrorRequest(Struct, frozen=True, forbid_unknown_fields=True):
    report: str
    line: int


ARGUMENTS: dict[str, type[Struct]] = {
    "ask": AskRequest, "ask_all": AskAllRequest, "work": WorkRequest, "shell": ShellRequest,
    "ask_user": QuestionRequest, "read_file": PathRequest, "write_file": WriteRequest, "list_files": PathRequest,
    "keep": KeepRequest, "recall": NameRequest, "forget": NameRequest, "chunks": EmptyRequest,
    "conversation": EmptyRequest,
    "run_program": CalleeRequest, "call_tool": OwnToolRequest, "wait": WaitRequest, "spent": EmptyRequest,
    "notes": EmptyRequest, "begin": EmptyRequest, "returned": ValueRequest, "raised": ErrorRequest,
}  # fmt: skip
"""The arguments of each request."""


def read_message(value: Any, location: str) -> ProcessMessage:
    """Return the process's request.

    Raise Halted if it is malformed; the program or one of its modules changed the runner.
    """
    try:
        return msgspec.convert(value, ProcessMessage)
    except msgspec.ValidationError as error:
        report = f"{location}: after this line the program's process sent a malformed request: {error}"
        raise Halted("Malformed Request", report, location) from error


def read_arguments(message: ProcessMessage) -> Struct | str:
    """Return the arguments of a request, or what is wrong with them."""
    kind = ARGUMENTS.get(message.call)
    if kind is None:
        return f"unknown effect {message.call[:80]!r}"
    try:
        return msgspec.convert(message.arguments, kind)
    except msgspec.ValidationError as error:
        return f"{message.call}: {error}"
