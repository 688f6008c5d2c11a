"""Builders of model input: views, requests and the calls of a conversation."""

from __future__ import annotations

from typing import Any

from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, Part, Text, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.requests import AskModel

SCHEMA = (
    '{"additionalProperties":false,"properties":{"path":{"description":"Path.","type":"string"},'
    '"line":{"type":"integer"}},"required":["path"],"type":"object"}'
)
READ_FILE = ToolSpec("read_file", "Read a file.", SCHEMA)
LONG = "You manage your own memory. " * 200


def user(*parts: Part | str) -> Message:
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: Part | str) -> Message:
    return Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def called(number: int, arguments: Any = None, name: str = "read_file") -> Message:
    return assistant(ToolCall(f"toolu_{number}", name, {"path": f"{number}.md"} if arguments is None else arguments))


def result(number: int, text: str = "content", *, failed: bool = False) -> Message:
    return user(ToolResult(f"toolu_{number}", text, failed))


def view(
    *messages: Message,
    system: str = "You are an agent.",
    tools: tuple[ToolSpec, ...] = (READ_FILE,),
    breakpoints: tuple[Breakpoint, ...] = (),
) -> View:
    return View(system, tools, Log(messages or (user("Do it."),)), breakpoints)


def asking(*messages: Message, **other: Any) -> AskModel:
    return AskModel(view(*messages, **other), step=1, facts=0)


def rolling(*messages: Message, system: str = LONG) -> AskModel:
    """A conversation with a strategy's four breakpoints: two fixed, two that move with its end."""
    last = len(messages) - 1
    marks = [Breakpoint(-1, 0, "1h"), Breakpoint(0, 0, "1h")]
    marks += [Breakpoint(index, len(messages[index].parts) - 1, "5m") for index in (last - 2, last) if index > 0]
    return asking(*messages, system=system, breakpoints=tuple(marks))
