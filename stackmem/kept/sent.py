"""The text that each wire sends for one block of a prompt, built by the adapters' own code; cost code counts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.log import Log
from stackmem.core.messages import Message, ToolSpec, View
from stackmem.core.text import whole
from stackmem.measure.prefix import PromptBlock, text_of
from stackmem.models.calls.text_calls import as_text, tool_line
from stackmem.models.gemini_messages import contents, declaration
from stackmem.models.openai_messages import chat_body, chat_tool
from stackmem.models.openai_responses import responses_body, responses_tool

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
"""Fields of messages that servers use and no model is shown."""
_GIVEN = ("args", "response")
"""Fields that hold what a model or a tool gave, whose own fields may be called anything."""


def wire_of(model: str) -> WireName:
    """The wire that a model of this name is asked through; servers of other kinds speak Chat Completions."""
    prefix = model.partition("/")[0]
    if prefix == "anthropic" or model.startswith("claude-"):
        return "anthropic"
    return "responses" if prefix == "responses" else "gemini" if prefix == "gemini" else "openai"


def sent_text(wire: WireName, block: PromptBlock) -> str:
    """What a request holds of the block: field names and texts, without escapes and without what no model is shown.

    The field names of a message stand for the marks that a server's template puts around it. Blocks for Claude are bare
    texts, because its known factors were measured on bare texts.
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
    """A message as JSON, but for escapes in texts, empty fields, and those that no model is shown."""
    if isinstance(value, dict):
        shown = [(name, member) for name, member in value.items() if name not in _UNCOUNTED and member is not None]
        for number, (name, member) in enumerate(shown):
            yield f'{", " if number else "{"}"{name}": '
            if name in _GIVEN:
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
