"""OpenAI's Responses format: ``/v1/responses``, whose input is a list of items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Part, Text, Thinking, ToolResult, ToolSpec
from stackmem.core.text import whole, whole_value
from stackmem.providers.openai_responses import called, read_response

from .bodies import ReadBodies
from .chat import error
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


def _read_item(raw: bytes) -> ForeignMessage:
    item = object_of(json.loads(raw), "an item")
    match item:
        case {"type": "function_call" | "custom_tool_call", "call_id": str(name), "name": str()}:
            return message("assistant", [called(item, whole(name))])
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(name)}:
            return message("user", [ToolResult(whole(name), result_text(item.get("output")))])
        case {"type": "reasoning"}:
            return message("assistant", [Thinking(whole_value(item))])
        case {"type": "agent_message", **rest}:  # between Codex's agents, encrypted by newer models
            return message("user", _content("user", rest.get("content")))
        case {"type": "additional_tools"}:
            return message("system", [])
        case {"role": "user" | "assistant" as role, **rest}:
            return message(role, _content(role, rest.get("content")))
        case {"role": "system" | "developer", **rest}:
            return message("system", _content("system", rest.get("content")))
        case {"type": str(kind)}:
            side: Role = "user" if kind.endswith(("_output", "_reference", "_response")) else "assistant"
            return message(side, [unknown(side, item)])
        case _:
            raise ValueError("an item has neither a role nor a type")


def _content(role: Role, content: object) -> Iterator[Part]:
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str():
                yield from text_part(part)
            case {"type": "input_text" | "output_text" | "text", "text": text} | {"type": "refusal", "refusal": text}:
                yield from text_part(text)
            case {"type": "encrypted_content", "encrypted_content": str(text)}:
                # the same as in the call that sent it, which tells whom a sub-agent works for
                yield from text_part(text)
            case dict():
                yield unknown(role, part)
            case _:
                raise ValueError("a part is not an object")


@lru_cache(maxsize=8)
def _tools(raw: bytes) -> tuple[ToolSpec, ...]:
    """Read tools from a request's list, or from an item that adds tools."""
    value = json.loads(raw)
    return tuple(
        tool_of(item.get("name") or item.get("type"), item.get("description"), item.get("parameters"))
        for item in _each(value.get("tools") if isinstance(value, dict) else value)
    )


def _each(tools: object) -> Iterator[Json]:
    """Yield every tool; a namespace yields its tools one by one."""
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict):
            yield from _each(tool.get("tools")) if tool.get("type") == "namespace" else [tool]


_bodies = ReadBodies("input", _read_item)


def read(body: bytes) -> ForeignRequest:
    """Read a body; raise ``ValueError`` if it is not a Responses request."""
    read_body = _bodies.read(body)
    fields, messages, raw = read_body.fields, read_body.messages, read_body.raw
    if read_body.words:
        messages = (message("user", text_part(read_body.words)),)
    system_parts = (part for system in read_body.systems for part in messages[system].parts)
    system = [part.text for part in system_parts if isinstance(part, Text)]
    items = (raw[system] for system in read_body.systems)
    more = [
        item for item in items if b'"additional_tools"' in item and json.loads(item).get("type") == "additional_tools"
    ]
    shape = (fields.text or {}).get("format")
    conversation = fields.conversation
    conversation_id = (
        conversation
        if isinstance(conversation, str)
        else conversation.get("id", "")
        if isinstance(conversation, dict)
        else ""
    )
    return ForeignRequest(
        model=whole(fields.model),
        system="\n\n".join(filter(None, (whole(fields.instructions or ""), *system))),
        tools=(*_tools(bytes(fields.tools) or b"null"), *(tool for item in more for tool in _tools(item))),
        messages=messages,
        raw=raw,
        span=read_body.span,
        wants_json=isinstance(shape, dict) and shape.get("type") in ("json_schema", "json_object"),
        continues=whole(fields.previous_response_id or str(conversation_id)),
    )


def _shortened(raw: bytes, shorten: Shorten) -> bytes:
    item = json.loads(raw)
    if item.get("type") not in ("function_call_output", "custom_tool_call_output"):
        return raw
    (result,) = _read_item(raw).parts
    short = shorten(result) if isinstance(result, ToolResult) else result
    return spelled({**item, "output": short.text}) if isinstance(short, ToolResult) and short != result else raw


def _added(raw: bytes, text: str) -> bytes:
    return with_text(raw, text, "input_text")


def _asking(messages: Sequence[bytes], text: str) -> list[bytes]:
    return [*messages, spelled(_user_message([text]))]


def _plain(model: str, system: str, texts: Iterable[str]) -> Json:
    return {"model": model, "instructions": system, "input": [_user_message(texts)], "store": False}


def _user_message(texts: Iterable[str]) -> Json:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": "user", "content": content}


def _reply(events: Iterable[str]) -> ModelReplied | ModelFailed:
    return read_response(events, 0)


RESPONSES = WireFormat(
    name="openai-responses",
    provider="openai",
    paths=("/responses",),
    field="input",
    read=read,
    reply=_reply,
    ends=(b"response.completed", b"response.incomplete", b"response.failed"),
    partial_usage=nothing_known,
    error=error,
    shortened=_shortened,
    added=_added,
    asking=_asking,
    plain=_plain,
)
