"""OpenAI's Chat Completions format: ``/v1/chat/completions``, which many servers support."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Part, Text, ToolCall, ToolResult, ToolSpec
from stackmem.core.text import whole
from stackmem.providers.json_text import parse_arguments
from stackmem.providers.openai_stream import read_chat

from .bodies import ReadBodies
from .wire import (
    ForeignMessage,
    ForeignRequest,
    Json,
    Role,
    Shorten,
    WireFormat,
    message,
    nothing_known,
    object_of,
    result_text,
    spelled,
    text_part,
    tool_of,
    unknown,
    with_text,
)

_ROLES: dict[Any, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "user",
    "function": "user",
}  # fmt: skip


def _read_message(raw: bytes) -> ForeignMessage:
    fields = object_of(json.loads(raw), "a message")
    speaker = fields.get("role")
    role = _ROLES.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        raise ValueError(f"no role {speaker!r:.40}")
    if speaker in {"tool", "function"}:
        name = fields.get("tool_call_id") or fields.get("name") or ""
        return message("user", [ToolResult(whole(str(name)), result_text(fields.get("content")))])
    return message(role, (*_content(role, fields.get("content")), *_calls(fields)))


def _content(role: Role, content: object) -> Iterator[Part]:
    for part in content if isinstance(content, list) else [content]:
        match part:
            case None:
                pass
            case str():
                yield from text_part(part)
            case {"type": "text", "text": text} | {"type": "refusal", "refusal": text}:
                yield from text_part(text)
            case dict():
                yield unknown(role, part)
            case _:
                raise ValueError("a part is not an object")


def _calls(fields: Json) -> Iterator[Part]:
    calls = fields.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        match call:
            case {"id": str(name), "function": {"name": str(tool), "arguments": str(text)}}:
                value, malformed = parse_arguments(text)
                yield ToolCall(whole(name), whole(tool), value, malformed)
            case dict():
                yield unknown("assistant", call)


@lru_cache(maxsize=8)
def _tools(raw: bytes) -> tuple[ToolSpec, ...]:
    items = json.loads(raw)
    tools = [tool for tool in items if isinstance(tool, dict)] if isinstance(items, list) else []
    functions = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
    return tuple(
        tool_of(function.get("name"), function.get("description"), function.get("parameters")) for function in functions
    )


_bodies = ReadBodies("messages", _read_message)


def read(body: bytes) -> ForeignRequest:
    """Read a body; raise ``ValueError`` if it is not a Chat Completions request."""
    read_body = _bodies.read(body)
    fields, messages = read_body.fields, read_body.messages
    system_parts = (part for position in read_body.systems for part in messages[position].parts)
    system = [part.text for part in system_parts if isinstance(part, Text)]
    return ForeignRequest(
        model=whole(fields.model),
        system="\n\n".join(system),
        tools=_tools(bytes(fields.tools) or b"null"),
        messages=messages,
        raw=read_body.raw,
        span=read_body.span,
        wants_json=(fields.response_format or {}).get("type") in ("json_schema", "json_object"),
    )


def _shortened(raw: bytes, shorten: Shorten) -> bytes:
    fields = json.loads(raw)
    if fields.get("role") != "tool":
        return raw
    (result,) = _read_message(raw).parts
    short = shorten(result) if isinstance(result, ToolResult) else result
    return spelled({**fields, "content": short.text}) if isinstance(short, ToolResult) and short != result else raw


def _added(raw: bytes, text: str) -> bytes:
    return with_text(raw, text, "text")


def _asking(messages: Sequence[bytes], text: str) -> list[bytes]:
    *before, last = messages
    if json.loads(last).get("role") == "user":
        return [*before, _added(last, text)]
    return [*messages, spelled({"role": "user", "content": text})]


def _plain(model: str, system: str, texts: Iterable[str]) -> Json:
    content = [{"type": "text", "text": text} for text in texts]
    return {"model": model, "messages": [{"role": "system", "content": system}, {"role": "user", "content": content}]}


def error(kind: str, text: str) -> Json:
    """Build an error in the format of both OpenAI APIs."""
    return {"error": {"message": text, "type": kind, "param": None, "code": None}}


def _reply(events: Iterable[str]) -> ModelReplied | ModelFailed:
    return read_chat(events, 0)


CHAT = WireFormat(
    name="openai-chat",
    provider="openai",
    paths=("/chat/completions",),
    field="messages",
    read=read,
    reply=_reply,
    ends=(b"[DONE]",),
    partial_usage=nothing_known,
    error=error,
    shortened=_shortened,
    added=_added,
    asking=_asking,
    plain=_plain,
)
