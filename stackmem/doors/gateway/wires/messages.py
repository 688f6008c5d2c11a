"""Anthropic's Messages format: ``/v1/messages``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Part, Thinking, ToolCall, ToolResult, ToolSpec, Usage
from stackmem.core.text import whole, whole_value
from stackmem.providers.anthropic_stream import read_reply

from .bodies import ReadBodies
from .wire import (
    MIN_REPLY_TOKENS,
    THOUGHTS,
    ForeignMessage,
    ForeignRequest,
    Json,
    Role,
    Shorten,
    WireFormat,
    defines_tools,
    message,
    object_of,
    result_text,
    spelled,
    text_part,
    tool_of,
    unknown,
)

_ATTRIBUTION = "x-anthropic-billing-header"
"""First words of a line that some clients put into a separate system block; the provider removes it."""


def _read_message(raw: bytes) -> ForeignMessage:
    fields = object_of(json.loads(raw), "a message")
    role = fields.get("role")
    if role not in ("user", "assistant", "system"):
        raise ValueError(f"no role {role!r:.40}")
    content = fields.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return message(role, (part for block in blocks for part in _parts(role, block)))


def _parts(role: Role, block: Any) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": text}:
            yield from text_part(text)
        case {"type": "thinking" | "redacted_thinking"}:
            yield Thinking(whole_value({name: value for name, value in block.items() if name != "cache_control"}))
        case {"type": "tool_use", "id": str(name), "name": str(tool)}:
            yield ToolCall(whole(name), whole(tool), whole_value(block.get("input")))
        case {"type": "tool_result", "tool_use_id": str(name)}:
            yield ToolResult(whole(name), result_text(block.get("content")), block.get("is_error") is True)
        case dict():
            yield unknown(role, block)
        case _:
            raise ValueError("a block is not an object")


@lru_cache(maxsize=8)
def _tools(raw: bytes) -> tuple[ToolSpec, ...]:
    items = json.loads(raw)
    tools = [tool for tool in items if isinstance(tool, dict)] if isinstance(items, list) else []
    return tuple(tool_of(tool.get("name"), tool.get("description"), tool.get("input_schema")) for tool in tools)


@lru_cache(maxsize=8)
def _system(raw: bytes) -> str:
    value = json.loads(raw)
    blocks = value if isinstance(value, list) else [{"type": "text", "text": value}]
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n\n".join(
        whole(text) for text in texts if isinstance(text, str) and text and not text.startswith(_ATTRIBUTION)
    )


_bodies = ReadBodies("messages", _read_message)


def read(body: bytes) -> ForeignRequest:
    """Read a body; raise ``ValueError`` if it is not a Messages request."""
    read_body = _bodies.read(body)
    fields = read_body.fields
    config = fields.output_config or {}
    manual = isinstance(fields.thinking, dict) and fields.thinking.get("type") == "enabled"
    return ForeignRequest(
        model=whole(fields.model),
        system=_system(bytes(fields.system) or b"null"),
        tools=_tools(bytes(fields.tools) or b"null"),
        messages=read_body.messages,
        raw=read_body.raw,
        span=read_body.span,
        wants_json=fields.output_format is not None or "format" in config,
        needs_thinking=manual,  # the models that accept this mode sign their thinking without what is before it
    )


def _shortened(raw: bytes, shorten: Shorten) -> bytes:
    fields = json.loads(raw)
    content = fields.get("content")
    changed = False
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            continue
        (result,) = _parts("user", block)
        short = shorten(result) if isinstance(result, ToolResult) and not defines_tools(result) else result
        if isinstance(short, ToolResult) and short != result:
            block["content"], changed = short.text, True
    return spelled({**fields, "content": [_unmarked(block) for block in content]}) if changed else raw


def _unmarked(block: Any) -> Any:
    return (
        {name: value for name, value in block.items() if name != "cache_control"} if isinstance(block, dict) else block
    )


def _added(raw: bytes, text: str) -> bytes:
    fields = json.loads(raw)
    content = fields.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return spelled({**fields, "content": [*blocks, {"type": "text", "text": text}]})


def _asking(messages: Sequence[bytes], text: str) -> list[bytes]:
    for position in range(len(messages) - 1, -1, -1):
        role = json.loads(messages[position]).get("role")
        if role == "user":  # system messages after it stay there, because no user message may follow them
            return [*messages[:position], _added(messages[position], text), *messages[position + 1 :]]
        if role != "system":
            break
    return [*messages, spelled({"role": "user", "content": [{"type": "text", "text": text}]})]


def _merged(systems: Sequence[bytes]) -> bytes:
    contents = [json.loads(system).get("content") for system in systems]
    blocks = [content if isinstance(content, list) else [{"type": "text", "text": content}] for content in contents]
    return spelled({"role": "system", "content": [_unmarked(block) for content in blocks for block in content]})


def _plain(model: str, system: str, texts: Iterable[str]) -> Json:
    content = [{"type": "text", "text": text} for text in texts]
    before = [{"type": "text", "text": system}]
    return {"model": model, "max_tokens": MIN_REPLY_TOKENS, "system": before,
            "messages": [{"role": "user", "content": content}]}  # fmt: skip


def _unbound(raw: bytes) -> bytes:
    """Remove thinking, which is signed over everything before it."""
    if b"thinking" not in raw:
        return raw
    fields = json.loads(raw)
    content = fields.get("content")
    if fields.get("role") != "assistant" or not isinstance(content, list):
        return raw
    visible = [block for block in content if not isinstance(block, dict) or block.get("type") not in THOUGHTS]
    if len(visible) == len(content):
        return raw
    return spelled({**fields, "content": visible or [{"type": "text", "text": "(no text)"}]})


_ENDS = (
    '{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}',
    '{"type": "message_stop"}',
)


def _usage_so_far(events: Iterable[str]) -> Usage:
    """Return the usage of the first event and later counts; the output tokens are a lower bound."""
    reply = read_reply((*events, *_ENDS))
    return reply.usage if isinstance(reply, ModelReplied) else Usage()


def _error(kind: str, text: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": text}}


MESSAGES = WireFormat(
    name="anthropic-messages",
    provider="anthropic",
    paths=("/messages",),
    field="messages",
    read=read,
    reply=read_reply,
    ends=(b"message_stop",),
    partial_usage=_usage_so_far,
    error=_error,
    shortened=_shortened,
    added=_added,
    asking=_asking,
    plain=_plain,
    unbound=_unbound,
    merged=_merged,
)
