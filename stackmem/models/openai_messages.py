"""A view as the body of a Chat Completions request, for any server that speaks it."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.messages import Message, Text, ToolCall, ToolResult, View
from stackmem.core.text import whole, whole_value

FOREIGN_THOUGHT = "reasoning_content"
"""The type of a thought that came from here: kept in the trace, sent back to no one."""

_NOTHING = "(no text)"


def chat_body(view: View, model: str) -> dict[str, Any]:
    """The body, without ``stream`` and a limit of the reply; equal views give equal bytes."""
    messages: list[dict[str, Any]] = []
    if view.system.strip():
        messages.append({"role": "system", "content": whole(view.system)})
    for message in view.messages:
        messages += _user(message) if message.role == "user" else [_assistant(message)]
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream_options": {"include_usage": True},
    }
    if view.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": whole(tool.description),
                    "parameters": json.loads(tool.schema),
                },
            }
            for tool in view.tools
        ]
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = False
    return body


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


def _assistant(message: Message) -> dict[str, Any]:
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    text = "\n\n".join(whole(part.text) for part in message.parts if isinstance(part, Text) and part.text.strip())
    if not calls:
        return {"role": "assistant", "content": text or _NOTHING}
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _call(call: ToolCall) -> dict[str, Any]:
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
