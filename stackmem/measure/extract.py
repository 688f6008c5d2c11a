"""A text that stands in for a summary that nobody wrote: lines of the conversation, as many as there is room for.

It keeps what an honest summary would have to keep, literals, and is at most as long as the request allows; it is no
forecast of what a model would have chosen. Whatever is built on it is an estimate and is marked as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import json

from stackmem.core.messages import Part, Text, ToolCall, ToolResult, View
from stackmem.core.text import mark_cut

from .first_loss import literals

MOST_CHARS = 4_000
"""Where the request names no length."""

_LINE_CHARS = 200
_ASKED = re.compile(r"at most ([\d,_]{1,9}) characters")


def extract_summary(view: View) -> str:
    """The newest lines with a literal that no newer line has, in their order.

    Args:
        view: The request for the summary; its last message asks for it and is not quoted.
    """
    asked = view.messages[-1].parts[-1] if view.messages and view.messages[-1].parts else Text("")
    found = _ASKED.search(asked.text) if isinstance(asked, Text) else None
    room = int(found[1].replace(",", "").replace("_", "")) if found else MOST_CHARS
    kept: list[str] = []
    told: set[str] = set()
    for line in _lines_backwards(view):
        new = literals(line) - told
        if not new:
            continue
        if len(line) + 1 > room:
            break
        kept.append(line)
        told |= new
        room -= len(line) + 1
    return "\n".join(reversed(kept))


def _lines_backwards(view: View) -> Iterator[str]:
    last = True
    for message in reversed(view.messages):
        for part in reversed(message.parts[:-1] if last else message.parts):
            for line in reversed(_text(part).splitlines()):
                yield mark_cut(line.strip(), _LINE_CHARS)
        last = False


def _text(part: Part) -> str:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall():
            return f"{part.name} {json.encode(part.arguments).decode()}"
        case _:
            return ""
