"""Spells the scripted provider's replies in the four wire formats, streamed or whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from stackmem.doors.gateway.wires.wire import WireFormat
from tests.doors.gateway.upstream import RawAnswer, message_events, sse

Json = dict[str, Any]
OUTPUT = 20
"""Tokens of every answer."""


class Call(Struct, frozen=True):
    """A tool call; ``arguments`` is a text for a custom tool of Responses, whose namespace is ``namespace``."""

    name: str
    arguments: Json | str
    namespace: str = ""


class Reply(Struct, frozen=True):
    """The model's reply: a text, and tool calls."""

    text: str
    calls: tuple[Call, ...] = ()


def call_id(wire: WireFormat, number: int, place: int = 0) -> str:
    """Return the id of a reply's call, as long as a real one."""
    return f"{'toolu' if wire is MESSAGES else 'call'}_{number:018}{place:02}"


def spoken(
    wire: WireFormat, asked: Json, reply: Reply, used: tuple[int, int, int], number: int, thoughts: list[Json]
) -> RawAnswer:
    """Return a reply as the answer to a request, with these tokens (uncached, read, written)."""
    spell = {CHAT.name: _chat, GEMINI.name: _gemini}.get(wire.name, _responses)
    pieces = tuple(
        _messages(asked, reply, used, number, thoughts) if wire is MESSAGES else spell(asked, reply, used, number)
    )
    kind = "text/event-stream" if asked.get("stream") else "application/json"
    return RawAnswer(pieces, headers=(("content-type", kind),))


def _messages(
    asked: Json, reply: Reply, used: tuple[int, int, int], number: int, thoughts: list[Json]
) -> Iterator[bytes]:
    blocks: list[Json] = [*thoughts, {"type": "text", "text": reply.text}]
    for place, one in enumerate(reply.calls):
        used_tool = {"id": call_id(MESSAGES, number, place), "name": one.name, "input": one.arguments}
        blocks.append({"type": "tool_use", **used_tool})
    stop = "tool_use" if reply.calls else "end_turn"
    usage = {"input_tokens": used[0], "cache_read_input_tokens": used[1], "cache_creation_input_tokens": used[2],
             "cache_creation": {"ephemeral_5m_input_tokens": used[2], "ephemeral_1h_input_tokens": 0}}  # fmt: skip
    begun = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    message = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": asked["model"], **begun}
    if not asked.get("stream"):
        whole = {**message, "content": blocks, "stop_reason": stop, "usage": {**usage, "output_tokens": OUTPUT}}
        yield json.dumps(whole).encode()
        return
    yield from sse({"type": "message_start", "message": message})
    yield from message_events(*blocks, stop=stop)[1:]


def _chat(asked: Json, reply: Reply, used: tuple[int, int, int], number: int) -> Iterator[bytes]:
    calls = [
        {"id": call_id(CHAT, number, place), "type": "function",
         "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
        for place, one in enumerate(reply.calls)
    ]  # fmt: skip
    finish = "tool_calls" if calls else "stop"
    prompt = used[0] + used[1]
    usage = {"prompt_tokens": prompt, "completion_tokens": OUTPUT, "total_tokens": prompt + OUTPUT,
             "prompt_tokens_details": {"cached_tokens": used[1]}}  # fmt: skip
    about = {"id": f"chatcmpl-{number}", "created": 1, "model": asked["model"]}
    said = {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
    if not asked.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": finish, "logprobs": None}
        yield json.dumps({**about, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        return
    pieces = {**said, "tool_calls": [{"index": at, **one} for at, one in enumerate(calls)]} if calls else said
    chunk = {**about, "object": "chat.completion.chunk"}
    for delta, reason in ((pieces, None), ({}, finish)):
        shown = {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        yield f"data: {json.dumps(shown)}\n\n".encode()
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode()


def _gemini(asked: Json, reply: Reply, used: tuple[int, int, int], number: int) -> Iterator[bytes]:
    parts: list[Json] = [{"text": reply.text}]
    for one in reply.calls:
        call = {"name": one.name, "args": one.arguments}
        parts.append({"functionCall": call, "thoughtSignature": f"s{number}"})
    usage = {"promptTokenCount": used[0] + used[1], "cachedContentTokenCount": used[1], "candidatesTokenCount": OUTPUT,
             "totalTokenCount": used[0] + used[1] + OUTPUT}  # fmt: skip
    said = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [said], "usageMetadata": usage, "modelVersion": asked["model"], "responseId": f"r{number}"}
    yield f"data: {json.dumps(whole)}\n\n".encode() if asked["stream"] else json.dumps(whole).encode()


def _responses(asked: Json, reply: Reply, used: tuple[int, int, int], number: int) -> Iterator[bytes]:
    output: list[Json] = [
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": reply.text, "annotations": []}]}
    ]  # fmt: skip
    for place, one in enumerate(reply.calls):
        named = {"id": f"fc_{number}_{place}", "call_id": call_id(RESPONSES, number, place), "name": one.name,
                 "status": "completed", **({"namespace": one.namespace} if one.namespace else {})}  # fmt: skip
        if isinstance(one.arguments, str):
            output.append({"type": "custom_tool_call", **named, "input": one.arguments})
        else:
            output.append({"type": "function_call", **named, "arguments": json.dumps(one.arguments)})
    prompt = used[0] + used[1]
    usage = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": used[1]}, "output_tokens": OUTPUT,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + OUTPUT}  # fmt: skip
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed",
                "model": asked["model"], "output": output, "usage": usage, "parallel_tool_calls": True,
                "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "instructions": None,
                "metadata": {}, "temperature": 1.0, "top_p": 1.0}  # fmt: skip
    if not asked.get("stream"):
        yield json.dumps(response).encode()
        return
    events: list[Json] = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
    for place, item in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        if item["type"] == "message":
            part = {"item_id": item["id"], "output_index": place, "content_index": 0}
            events.append({"type": "response.content_part.added", **part, "part": {**item["content"][0], "text": ""}})
            events.append({"type": "response.output_text.delta", **part, "delta": reply.text, "logprobs": []})
            events.append({"type": "response.output_text.done", **part, "text": reply.text, "logprobs": []})
            events.append({"type": "response.content_part.done", **part, "part": item["content"][0]})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": "response.completed", "response": response})
    yield from sse(*({**one, "sequence_number": at} for at, one in enumerate(events)))
