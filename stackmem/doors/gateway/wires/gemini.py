"""Google's Gemini format: ``/v1beta/models/NAME:streamGenerateContent``, with the model in the path.

A call and its response get the number of the call within its message, such as ``#0``, and no other id: servers often
send none, and Gemini CLI then makes up ids that the reply did not have. So the responses to parallel calls must be in
the order of the calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.messages import Part, ReplyPart, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage
from stackmem.core.text import whole, whole_value
from stackmem.providers.failures import failed, kind_of_error, sentence
from stackmem.providers.openai_stream import token_count, tokens_in

from .bodies import ReadBodies
from .wire import (
    MIN_REPLY_TOKENS,
    ForeignMessage,
    ForeignRequest,
    Json,
    Role,
    Shorten,
    WireFormat,
    message,
    nothing_known,
    object_of,
    spelled,
    text_part,
    tool_of,
    unknown,
)

_REFUSED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR")


def _read_message(raw: bytes) -> ForeignMessage:
    fields = object_of(json.loads(raw), "a content")
    role: Role = "assistant" if fields.get("role") == "model" else "user"
    return message(role, _parts(role, fields.get("parts")))


def _parts(role: Role, parts: object) -> Iterator[Part]:
    calls = 0
    for part in parts if isinstance(parts, list) else []:
        match part:
            case {"functionCall": {"name": str(name), **call}}:
                yield ToolCall(f"#{calls}", whole(name), whole_value(call.get("args") or {}))
                calls += 1
            case {"functionResponse": {"name": str(), **answer}}:
                text, is_error = _response_text(answer.get("response"))
                yield ToolResult(f"#{calls}", text, is_error)
                calls += 1
            case {"text": str(), "thought": True}:
                yield Thinking({"type": "thinking", "thinking": whole(part["text"])})
            case {"text": str(text)}:
                yield from text_part(text)
            case dict():
                yield unknown(role, part)
            case _:
                raise ValueError("a part is not an object")


def _response_text(response: object) -> tuple[str, bool]:
    match response:
        case {"error": str(text)}:
            return whole(text), True
        case {"output": str(text)} | {"result": str(text)} | {"content": str(text)}:
            return whole(text), False
        case _:
            return json.dumps(whole_value(response), ensure_ascii=False), False


@lru_cache(maxsize=8)
def _tools(raw: bytes) -> tuple[ToolSpec, ...]:
    items = json.loads(raw)
    sets = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    declarations = (item.get("functionDeclarations") or item.get("function_declarations") for item in sets)
    each = (tool for tools in declarations if isinstance(tools, list) for tool in tools if isinstance(tool, dict))
    return tuple(
        tool_of(
            function.get("name"),
            function.get("description"),
            function.get("parametersJsonSchema") or function.get("parameters"),
        )
        for function in each
    )


@lru_cache(maxsize=8)
def _system(raw: bytes) -> str:
    value = json.loads(raw)
    parts = value.get("parts") if isinstance(value, dict) else None
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else [value]
    return "\n\n".join(whole(text) for text in texts if isinstance(text, str) and text)


_bodies = ReadBodies("contents", _read_message)


def read(body: bytes) -> ForeignRequest:
    """Read a body, which does not name the model; raise ``ValueError`` if it is not a Gemini request."""
    read_body = _bodies.read(body)
    fields = read_body.fields
    config = fields.generationConfig if isinstance(fields.generationConfig, dict) else {}
    return ForeignRequest(
        model="",
        system=_system(bytes(fields.systemInstruction) or b"null"),
        tools=_tools(bytes(fields.tools) or b"null"),
        messages=read_body.messages,
        raw=read_body.raw,
        span=read_body.span,
        wants_json=config.get("responseMimeType") == "application/json" or "responseSchema" in config,
    )


def _shortened(raw: bytes, shorten: Shorten) -> bytes:
    fields = json.loads(raw)
    parts = fields.get("parts")
    results = [part for part in _read_message(raw).parts if isinstance(part, ToolResult)]
    answers = [part for part in parts if isinstance(part, dict) and "functionResponse" in part] if results else []
    changed = False
    for part, result in zip(answers, results, strict=False):
        short = shorten(result)
        if short != result:
            name = "error" if result.failed else "output"
            part["functionResponse"] = {**part["functionResponse"], "response": {name: short.text}}
            changed = True
    return spelled(fields) if changed else raw


def _added(raw: bytes, text: str) -> bytes:
    fields = json.loads(raw)
    parts = fields.get("parts")
    return spelled({**fields, "parts": [*(parts if isinstance(parts, list) else []), {"text": text}]})


def _asking(messages: Sequence[bytes], text: str) -> list[bytes]:
    *before, last = messages
    if json.loads(last).get("role") != "model":
        return [*before, _added(last, text)]
    return [*messages, spelled({"role": "user", "parts": [{"text": text}]})]


def _plain(_model: str, system: str, texts: Iterable[str]) -> Json:
    return {
        "systemInstruction": {"parts": [{"text": system}]},
        "contents": [{"role": "user", "parts": [{"text": text} for text in texts]}],
        "generationConfig": {"maxOutputTokens": MIN_REPLY_TOKENS},
    }


def _reply(events: Iterable[str]) -> ModelReplied | ModelFailed:
    """Assemble the chunks of an answer; a stream without a finish reason is incomplete."""
    parts: list[Any] = []
    usage, reason, identity = Usage(), "", ""
    try:
        for chunk in _chunks(events):
            if isinstance(error := chunk.get("error"), dict):
                kind = kind_of_error(str(error.get("status") or ""), json.dumps(error))
                return failed(kind, f"an error in mid-stream: {sentence(error) or json.dumps(error)}")
            identity = whole(str(chunk.get("responseId") or identity))
            if isinstance(counts := chunk.get("usageMetadata"), dict):
                usage = _counted(counts)
            if isinstance(feedback := chunk.get("promptFeedback"), dict) and feedback.get("blockReason"):
                reason = "SAFETY"
            candidates = chunk.get("candidates")
            for candidate in candidates[:1] if isinstance(candidates, list) else []:
                reason = str(candidate.get("finishReason") or reason)
                content = candidate.get("content")
                parts += content.get("parts") or [] if isinstance(content, dict) else []
        reply_parts = _reply_parts(parts)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        return failed("incomplete", f"the reply's stream is malformed: {error}")
    if not reason:
        return failed("incomplete", "the reply's stream ended before its end was announced")
    called = any(isinstance(part, ToolCall) for part in reply_parts)
    cut: Stop = "refused" if reason in _REFUSED else "truncated" if reason == "MAX_TOKENS" else "end"
    return ModelReplied(reply_parts, "call" if called and cut == "end" else cut, usage, reply_id=identity[:200])


def _chunks(events: Iterable[str]) -> Iterator[Json]:
    for text in events:
        value = json.loads(text)
        yield from (object_of(item, "a chunk") for item in (value if isinstance(value, list) else [value]))


def _reply_parts(parts: list[Any]) -> tuple[ReplyPart, ...]:
    """Return the parts of a reply: thinking, text, then calls."""
    read_parts = list(_parts("assistant", parts))
    thought = "".join(str(part.raw.get("thinking", "")) for part in read_parts if isinstance(part, Thinking))
    text = "".join(part.text for part in read_parts if isinstance(part, Text))
    calls = [part for part in read_parts if isinstance(part, ToolCall)]
    thinking = [Thinking({"type": "thinking", "thinking": thought})] if thought else []
    return (*thinking, *([Text(text)] if text else []), *calls)


def _counted(counts: Json) -> Usage:
    prompt = token_count(counts.get("promptTokenCount")) + token_count(counts.get("toolUsePromptTokenCount"))
    output = token_count(counts.get("candidatesTokenCount")) + token_count(counts.get("thoughtsTokenCount"))
    return tokens_in(prompt, {"cached_tokens": counts.get("cachedContentTokenCount")}, output)


def _error(kind: str, text: str) -> Json:
    status = "UNAUTHENTICATED" if kind == "authentication_error" else "INVALID_ARGUMENT"
    return {"error": {"code": 401 if kind == "authentication_error" else 400, "message": text, "status": status}}


GEMINI = WireFormat(
    name="gemini",
    provider="google",
    paths=(),
    field="contents",
    read=read,
    reply=_reply,
    ends=(b"finishReason",),
    partial_usage=nothing_known,
    error=_error,
    shortened=_shortened,
    added=_added,
    asking=_asking,
    plain=_plain,
)
