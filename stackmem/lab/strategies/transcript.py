"""Turns as plain text, for a reader that does not continue them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import json

from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult
from stackmem.core.text import clip_chars
from stackmem.memory.shared.linear import Exchange


def transcript(exchanges: Sequence[Exchange], most: int) -> str:
    """Return every exchange under its step in at most about ``most`` characters; the longest are clipped in the
    middle.
    """
    texts = [
        f"STEP {exchange.step}\n{message_text(exchange.said)}\n{message_text(exchange.told)}" for exchange in exchanges
    ]
    share = _share([len(text) for text in texts], most)
    return "\n\n".join(clip_chars(text, share) for text in texts)


def message_text(message: Message) -> str:
    return "\n".join(filter(None, map(spoken_part, message.parts)))


def spoken_part(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case ToolCall():
            arguments = part.malformed if part.malformed is not None else json.encode(part.arguments).decode()
            return f"CALL {part.name} {arguments}"
        case ToolResult():
            return f"{'FAILED' if part.failed else 'RESULT'}\n{part.text}"
        case Thinking():
            return ""
        case _:
            assert_never(part)


def _share(lengths: Sequence[int], most: int) -> int:
    """Return the maximum length of a text so that all together take ``most``. Short texts leave more for long ones."""
    remaining, share = most, most
    for number, length in enumerate(sorted(lengths)):
        share = remaining // (len(lengths) - number)
        if length > share:
            return share
        remaining -= length
    return max(share, *lengths) if lengths else most
