"""A view as the body of a Chat Completions request, for any server that speaks it.

Rule: what a reply carried beside text and calls goes back as it was, where the strategy left the thought in the view.
A server that refuses such a field, or misses one that the strategy left out, is given what ``Extras`` says.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.text import whole, whole_value
from stackmem.core.tool_schemas import shown_schema

FOREIGN_THOUGHT = "reasoning_content"
"""The type of a thought that came from here; it goes back to no provider of another kind."""
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini documents for a call whose signature is not at hand."""

_NOTHING = "(no text)"
_FIELDS = ("reasoning_details", "reasoning")
_MISSED = re.compile(r"missing|must be (passed|provided|included)|is required", re.IGNORECASE)


class Extras(Struct, frozen=True):
    """What a server turned out to want of the messages that are sent back."""

    left_out: frozenset[str] = frozenset()  # fields that it refuses
    filled: frozenset[str] = frozenset()  # fields that it misses in a message with calls

    def after(self, refusal: str) -> Extras:
        """These, and what a refusal says of a field that goes back, or is missing."""
        named = next((name for name in ("thought_signature", "reasoning_content", *_FIELDS) if name in refusal), None)
        if named is None:
            return self
        if _MISSED.search(refusal):
            return replace(self, filled=self.filled | {named})
        return replace(self, left_out=self.left_out | {named})


NO_EXTRAS = Extras()


def chat_body(view: View, model: str, extras: Extras = NO_EXTRAS) -> dict[str, Any]:
    """The body, without ``stream`` and a limit of the reply; equal views give equal bytes."""
    messages: list[dict[str, Any]] = []
    if view.system.strip():
        messages.append({"role": "system", "content": whole(view.system)})
    for message in view.messages:
        messages += _user(message) if message.role == "user" else [_assistant(message, extras)]
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream_options": {"include_usage": True},
    }
    if view.tools:
        body["tools"] = [chat_tool(tool) for tool in view.tools]
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = False
    return body


def chat_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": whole(tool.description), "parameters": named_parameters(tool)}
    return {"type": "function", "function": function}


def named_parameters(tool: ToolSpec) -> dict[str, Any]:
    """The schema, always with properties: OpenAI demands them, and llama-server lets a model give no other field."""
    return {"properties": {}, **shown_schema(tool)}


def _user(message: Message) -> list[dict[str, Any]]:
    """The results as messages of their own, then the texts as one."""
    found: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": part.call_id or _NOTHING, "content": whole(part.text)}
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    texts = [whole(part.text) for part in message.parts if isinstance(part, Text) and part.text.strip()]
    if texts or not found:
        found.append({"role": "user", "content": "\n\n".join(texts) or _NOTHING})
    return found


def _assistant(message: Message, extras: Extras) -> dict[str, Any]:
    raw = next((part.raw for part in message.parts if isinstance(part, Thinking)), {})
    back = raw if raw.get("type") == FOREIGN_THOUGHT else {}
    more = back.get("calls", {})
    calls = [{**spelled_call(part), **more.get(part.id, {})} for part in message.parts if isinstance(part, ToolCall)]
    text = "\n\n".join(whole(part.text) for part in message.parts if isinstance(part, Text) and part.text.strip())
    sent: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else _NOTHING)}
    if calls:
        sent["tool_calls"] = calls
    if thought := back.get("thinking"):
        field = back.get("field", FOREIGN_THOUGHT)
        spoken = [{"type": "text", "text": text}] if text else []
        sent[field] = (
            [{"type": "thinking", "thinking": [{"type": "text", "text": thought}]}, *spoken]
            if field == "content"
            else thought
        )
    sent |= back.get("message", {})
    if calls and FOREIGN_THOUGHT in extras.filled:
        sent.setdefault(FOREIGN_THOUGHT, "")
    if calls and "thought_signature" in extras.filled:
        calls[0].setdefault("extra_content", _NO_SIGNATURE)
    return {name: value for name, value in sent.items() if name not in extras.left_out}


def spelled_call(call: ToolCall) -> dict[str, Any]:
    """Arguments that were no object go as ``{"malformed": TEXT}``: servers parse them again."""
    try:
        arguments = whole_value(call.arguments)
    except ValueError:
        arguments = "nested too deep"
    if call.malformed is not None:
        arguments = {"malformed": whole(call.malformed)}
    elif not isinstance(arguments, dict):
        arguments = {"malformed": json.dumps(arguments, ensure_ascii=False)}
    text = json.dumps(arguments, ensure_ascii=False)
    function = {"name": whole(call.name) or "unknown", "arguments": text}
    return {"id": call.id or _NOTHING, "type": "function", "function": function}
