"""A view as the body of a Messages request. Equal views give equal bytes: nothing here depends on anything else."""

from __future__ import annotations

import json
import re
from typing import Any, assert_never

from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.text import whole, whole_value

from .openai_messages import FOREIGN_THOUGHT

Block = dict[str, Any]

_NOTHING = "(no text)"
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def request_body(view: View, model: str, max_tokens: int, thinking: str | None) -> dict[str, Any]:
    """The body, without ``stream``.

    ``max_tokens`` is the longest reply, thinking included; a ``thinking`` of ``adaptive`` asks for it, anything else
    leaves the model's own default.
    """
    marks: dict[tuple[int, int], str] = {(point.message, point.part): point.ttl for point in view.breakpoints}
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
    if thinking == "adaptive":
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    if view.tools:
        body["tools"] = [_tool(tool) for tool in view.tools]
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    if view.system.strip():
        system: Block = {"type": "text", "text": whole(view.system)}
        body["system"] = [_marked(system, next((ttl for (at, _), ttl in marks.items() if at == -1), None))]
    body["messages"] = [_message(message, index, marks) for index, message in enumerate(view.messages)]
    return body


def _tool(tool: ToolSpec) -> Block:
    return {
        "name": tool.name,
        "description": whole(tool.description),
        "strict": True,
        "input_schema": json.loads(tool.schema),
    }


def _message(message: Message, index: int, marks: dict[tuple[int, int], str]) -> dict[str, Any]:
    blocks: list[Block] = []
    for number, part in enumerate(message.parts):
        block = _block(part)
        if block is not None:
            blocks.append(block)
        ttl = marks.get((index, number))
        # The mark of a part that is not sent goes to the one before it: the prefix it ends is the same.
        if ttl is not None and blocks and blocks[-1]["type"] in {"text", "tool_use", "tool_result"}:
            blocks[-1] = _marked(blocks[-1], ttl)
    return {"role": message.role, "content": blocks or [{"type": "text", "text": _NOTHING}]}


def _block(part: Part) -> Block | None:
    """A part as a block; None for text of blanks alone, which the API refuses."""
    match part:
        case Text():
            return {"type": "text", "text": whole(part.text)} if part.text.strip() else None
        case Thinking() if part.raw.get("type") == FOREIGN_THOUGHT:
            return None
        case Thinking():
            block: Block = whole_value(part.raw)
            return block
        case ToolCall():
            return {"type": "tool_use", "id": _name(part.id), "name": _name(part.name), "input": _input(part)}
        case ToolResult():
            return _result(part)
        case _:
            assert_never(part)


def _result(part: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _name(part.call_id)}
    if part.text:
        block["content"] = whole(part.text)
    if part.failed:
        block["is_error"] = True
    return block


def _name(text: str) -> str:
    """The API takes only these characters; a tool that a model made up, or another provider's id, may hold others."""
    return _NOT_NAME.sub("_", text)[:128] or "unknown"


def _input(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as the object that the API demands, whatever the model once sent."""
    if call.malformed is not None:
        return {"malformed": whole(call.malformed)}
    if not isinstance(call.arguments, dict):
        return {"malformed": whole(json.dumps(call.arguments, ensure_ascii=False))}
    try:
        found: dict[str, Any] = whole_value(call.arguments)
    except ValueError:
        return {"malformed": "arguments nested too deep"}
    return found


def _marked(block: Block, ttl: str | None) -> Block:
    return block if ttl is None else {**block, "cache_control": {"type": "ephemeral", "ttl": ttl}}
