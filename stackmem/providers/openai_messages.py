"""Converts a view to the body of a Chat Completions request, for any server.

Extra fields of a reply are sent back unchanged, if the strategy kept the thought in the view. ``Extras`` handles
servers that refuse such a field, or require one that the strategy removed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.images import no_image
from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.text import whole, whole_value
from stackmem.core.tool_schemas import shown_schema

from .images import Sight, data_url

FOREIGN_THOUGHT = "reasoning_content"
"""Type of thoughts from these APIs; they are not sent to providers of another kind."""
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Gemini's documented placeholder for a call without a known signature."""

_NOTHING = "(no text)"
_FIELDS = ("reasoning_details", "reasoning")
_REQUIRED = re.compile(r"missing|must be (passed|provided|included)|is required", re.IGNORECASE)


class Extras(Struct, frozen=True):
    """A server's requirements on the messages that are sent back, as learned from its errors."""

    left_out: frozenset[str] = frozenset()  # fields that it refuses
    filled: frozenset[str] = frozenset()  # fields that it requires in messages with calls

    def after(self, refusal: str) -> Extras:
        """Return these extras, updated for a refusal that names a field."""
        field = next((name for name in ("thought_signature", "reasoning_content", *_FIELDS) if name in refusal), None)
        if field is None:
            return self
        if _REQUIRED.search(refusal):
            return replace(self, filled=self.filled | {field})
        return replace(self, left_out=self.left_out | {field})


NO_EXTRAS = Extras()


def chat_body(view: View, model: str, extras: Extras = NO_EXTRAS, sight: Sight | None = None) -> dict[str, Any]:
    """Build the body, without ``stream`` and reply limit; equal views give equal bytes.

    Without ``sight``, images are left out.
    """
    sight = sight or Sight(view, None, no_image)
    messages: list[dict[str, Any]] = []
    if view.system.strip():
        messages.append({"role": "system", "content": whole(view.system)})
    for message in view.messages:
        messages += _user(message, sight) if message.role == "user" else [_assistant(message, extras)]
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
    """Return the schema, always with properties: OpenAI requires them, and llama-server allows no other fields."""
    return {"properties": {}, **shown_schema(tool)}


def _user(message: Message, sight: Sight) -> list[dict[str, Any]]:
    """Convert results to separate messages, followed by all texts and images as one message.

    The API takes images only in messages of the user.
    """
    messages: list[dict[str, Any]] = []
    texts: list[str] = []
    images: list[dict[str, Any]] = []
    for part in message.parts:
        if not isinstance(part, Text | ToolResult):
            continue
        pairs, note = sight.of(part)
        images += [{"type": "image_url", "image_url": {"url": data_url(*each)}} for each in pairs]
        text = whole(part.text) + note
        if isinstance(part, ToolResult):
            messages.append({"role": "tool", "tool_call_id": part.call_id or _NOTHING, "content": text})
        elif text.strip():
            texts.append(text)
    text = "\n\n".join(texts)
    if images:
        caption = text or ("The images of the results above:" if messages else _NOTHING)
        messages.append({"role": "user", "content": [{"type": "text", "text": caption}, *images]})
    elif text or not messages:
        messages.append({"role": "user", "content": text or _NOTHING})
    return messages


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
        text_parts = [{"type": "text", "text": text}] if text else []
        sent[field] = (
            [{"type": "thinking", "thinking": [{"type": "text", "text": thought}]}, *text_parts]
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
    """Convert a call. Arguments other than objects become ``{"malformed": TEXT}``, because servers parse them again."""
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
