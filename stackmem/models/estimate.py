"""Usage where a server reports none: characters / 2.5, and marked as estimated."""

from __future__ import annotations

import math

from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Part, Text, Thinking, ToolCall, ToolResult, Usage, View

CHARS_PER_TOKEN = 2.5


def estimated_usage(reply: ModelReplied, view: View) -> ModelReplied:
    """``reply`` with the usage its characters suggest."""
    prompt = len(view.system) + sum(len(tool.description) + len(tool.schema) for tool in view.tools)
    prompt += sum(_chars(part) for message in view.messages for part in message.parts)
    output = sum(_chars(part) for part in reply.parts)
    return replace(reply, usage=Usage(uncached=_tokens(prompt), output=_tokens(output), estimated=True))


def _tokens(chars: int) -> int:
    return math.ceil(chars / CHARS_PER_TOKEN)


def _chars(part: Part) -> int:
    match part:
        case Text() | ToolResult():
            return len(part.text)
        case Thinking():
            return len(str(part.raw.get("thinking", "")))
        case ToolCall():
            return len(part.name) + len(part.malformed if part.malformed is not None else str(part.arguments))
