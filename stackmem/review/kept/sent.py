"""The text that each wire format sends for one block of a prompt, made by the adapters' own code, for counting
tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.log import Log
from stackmem.core.messages import Message, ToolSpec, View
from stackmem.core.text import whole
from stackmem.providers.calls.text_calls import as_text, tool_line
from stackmem.providers.gemini_messages import contents, declaration
from stackmem.providers.openai_messages import chat_body, chat_tool
from stackmem.providers.openai_responses import responses_body, responses_tool
from stackmem.review.measure.prefix import PromptBlock, text_of

Json = dict[str, Any]
WireName = Literal["anthropic", "openai", "responses", "gemini", "text"]
"""The Messages API, Chat Completions, Responses, Gemini, and Chat Completions with tools and calls as text."""


class _Spelling(Struct, frozen=True):
    tool: Callable[[ToolSpec], Any]
    messages: Callable[[View], list[Json]]


_SPELLINGS: dict[WireName, _Spelling] = {
    "openai": _Spelling(chat_tool, lambda view: chat_body(view, "")["messages"]),
    "responses": _Spelling(responses_tool, lambda view: responses_body(view, "")["input"]),
    "gemini": _Spelling(declaration, contents),
    "text": _Spelling(
        lambda tool: tool_line(chat_tool(tool)), lambda view: as_text(chat_body(view, ""))["messages"]
    ),
}  # fmt: skip
_UNCOUNTED = frozenset({
    "id", "call_id", "tool_call_id", "type", "signature", "thought_signature", "extra_content", "encrypted_content",
})  # fmt: skip
"""Fields of messages that servers use and models do not see."""
_JSON_FIELDS = ("args", "response")
"""Fields with data from a model or a tool, in which any field name may occur."""


def wire_of(model: str) -> WireName:
    """Return the wire format for a model of this name. Servers of other kinds use Chat Completions."""
    prefix = model.partition("/")[0]
    if prefix == "anthropic" or model.startswith("claude-"):
        return "anthropic"
    return "responses" if prefix == "responses" else "gemini" if prefix == "gemini" else "openai"


def sent_text(wire: WireName, block: PromptBlock) -> str:
    """Return the block's text in a request: field names and texts, without escapes and without parts that models do not
    see.

    The field names of a message represent the markers that a server's template puts around it. Blocks for Claude are
    plain texts, because its known factors were measured on plain texts.
    """
    if wire == "anthropic":
        return text_of(block)
    spelling, content = _SPELLINGS[wire], block.content
    if isinstance(content, ToolSpec):
        tool = spelling.tool(content)
        return tool if isinstance(tool, str) else json.dumps(tool, ensure_ascii=False)
    if block.place in ("user", "assistant"):
        view = View("", (), Log((Message(block.place, (content,)),)))
        return "\n".join("".join(_pieces(message)) for message in spelling.messages(view))
    return whole(text_of(block))


def _pieces(value: Any) -> Iterator[str]:
    """Yield a message as JSON without escapes in texts, empty fields, and fields that models do not see."""
    if isinstance(value, dict):
        members = [(name, member) for name, member in value.items() if name not in _UNCOUNTED and member is not None]
        for number, (name, member) in enumerate(members):
            yield f'{", " if number else "{"}"{name}": '
            if name in _JSON_FIELDS:
                yield json.dumps(member, ensure_ascii=False)
            else:
                yield from _pieces(member)
        yield "}"
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield ", " if number else "["
            yield from _pieces(member)
        yield "]"
    else:
        yield f'"{value}"'
