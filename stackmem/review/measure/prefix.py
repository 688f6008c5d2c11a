"""A prompt as the provider's cache sees it: a sequence of blocks, and the size of each prefix.

The order is tools, system, messages. Parts that are not sent (blank text, another provider's thinking) do not become
blocks. A breakpoint on such a part applies to the block before it in the same message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal, assert_never

from msgspec import Struct, json

from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, View

Life = Literal["1h", "5m"]

_OWN_THOUGHTS = ("thinking", "redacted_thinking")
_NOTHING = Text("(no text)")
_MARKABLE = ("text", "tool_use", "tool_result")


class PromptBlock(Struct, frozen=True):
    """One block of a prompt: a tool, the system prompt as text, or a part of a message."""

    place: Literal["tool", "system", "user", "assistant"]
    content: ToolSpec | Part


Count = Callable[[PromptBlock], int]
"""Returns the number of tokens in a block."""


class Prefix(Struct, frozen=True):
    """A prompt up to the end of one block."""

    digest: bytes  # identifies all of its bytes
    tokens: int  # of all its blocks
    position: int  # of its last block; consecutive calls, and consecutive results, share one
    kind: str  # of its last block


_EMPTY = Prefix(b"", 0, 0, "")


class PromptPrefixes(Struct, frozen=True):
    """Every prefix of one prompt."""

    # tools, system, settings: separate digests of what precedes the messages
    tools: bytes
    system: bytes
    settings: bytes
    prefixes: Log[Prefix]
    starts: Log[int]  # the number of blocks before each message

    @property
    def tokens(self) -> int:
        return self.prefixes[-1].tokens if self.prefixes else 0


class PromptReader:
    """Reads prompts. Messages that a prompt shares with an earlier one are not read again."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._read: dict[
            int, tuple[PromptPrefixes, Message, PromptPrefixes]
        ] = {}  # by position: the prompt before a message, the message, and the prompt after it
        self._heads: dict[tuple[str, tuple[ToolSpec, ...], str], PromptPrefixes] = {}

    def read(self, view: View, settings: str) -> PromptPrefixes:
        """Return every prefix of ``view``. ``settings`` represents other settings whose change invalidates the
        messages.
        """
        key = (view.system, view.tools, settings)
        head = self._heads.get(key)
        if head is None:
            head = self._head(view, settings)
            self._heads = {key: head}
        return view.messages.fold(self._with_message, head, key)

    def _head(self, view: View, settings: str) -> PromptPrefixes:
        blocks = [PromptBlock("tool", tool) for tool in view.tools]
        blocks += [PromptBlock("system", Text(view.system))] if view.system.strip() else []
        prefixes: Log[Prefix] = Log()
        for block in blocks:
            prefixes = prefixes.append(self._next(prefixes, block, b""))
        return PromptPrefixes(
            _digest(json.encode(view.tools)), _digest(view.system.encode(errors="replace")),
            _digest(settings.encode()), prefixes, Log(),
        )  # fmt: skip

    def _with_message(self, prompt: PromptPrefixes, message: Message) -> PromptPrefixes:
        """Return the prompt with one more message, reused if the last prompt had it at this position."""
        position = len(prompt.starts)
        cached = self._read.get(position)
        if cached is not None and cached[0] is prompt and same_message(cached[1], message):
            return cached[2]
        after = self._extended(prompt, message)
        self._read[position] = (prompt, message, after)
        return after

    def _extended(self, prompt: PromptPrefixes, message: Message) -> PromptPrefixes:
        prefixes = prompt.prefixes
        for part in filter(sent, message.parts):
            prefixes = prefixes.append(self._next(prefixes, PromptBlock(message.role, part), prompt.settings))
        if len(prefixes) == len(prompt.prefixes):
            prefixes = prefixes.append(self._next(prefixes, PromptBlock(message.role, _NOTHING), prompt.settings))
        starts = prompt.starts.append(len(prompt.prefixes))
        return PromptPrefixes(prompt.tools, prompt.system, prompt.settings, prefixes, starts)

    def _next(self, prefixes: Log[Prefix], block: PromptBlock, settings: bytes) -> Prefix:
        before = prefixes[-1] if prefixes else _EMPTY
        kind = _kind(block.content)
        together = kind == before.kind and kind in ("tool_use", "tool_result")
        content = block.place.encode() + settings + json.encode(block.content)
        return Prefix(
            _digest(before.digest + content),
            before.tokens + self._count(block),
            before.position + (not together),
            kind,
        )


def marks(view: View, prompt: PromptPrefixes) -> list[tuple[int, Life]]:
    """Return the index and time to live of each block that a breakpoint ends. Of two on one block, the later one
    counts.
    """
    lives: dict[int, Life] = {}
    before = prompt.starts[0] if prompt.starts else len(prompt.prefixes)
    for point in view.breakpoints:
        if point.message == -1:
            if view.system.strip():
                lives[before - 1] = point.ttl
        elif point.message < len(view.messages) and point.part < len(view.messages[point.message].parts):
            parts = view.messages[point.message].parts[: point.part + 1]
            start = prompt.starts[point.message]
            at = start + sum(map(sent, parts)) - 1
            if at >= start and prompt.prefixes[at].kind in _MARKABLE:
                lives[at] = point.ttl
    return sorted(lives.items())


def sent(part: Part) -> bool:
    """Return whether a part becomes a block of the request."""
    if isinstance(part, Text):
        return bool(part.text.strip())
    return not isinstance(part, Thinking) or part.raw.get("type") in _OWN_THOUGHTS


def text_of(block: PromptBlock) -> str:
    """Return the text of a block that consists of tokens."""
    match block.content:
        case ToolSpec(name=name, description=description, schema=schema):
            return f"{name}\n{description}\n{schema}"
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall(name=name, arguments=arguments, malformed=malformed):
            return f"{name}\n{malformed if malformed is not None else json.encode(arguments).decode()}"
        case Thinking(raw=raw):
            return str(raw.get("thinking", ""))
        case _:
            assert_never(block.content)


def same_message(message: Message, other: Message) -> bool:
    """Return whether two messages are known to encode to the same bytes. Parts with foreign JSON must be identical
    objects.
    """
    if message is other:
        return True
    return (message.role, len(message.parts)) == (other.role, len(other.parts)) and all(
        part is its or (isinstance(part, Text | ToolResult) and part == its)
        for part, its in zip(message.parts, other.parts, strict=True)
    )


def _kind(content: ToolSpec | Part) -> str:
    match content:
        case ToolSpec():
            return "tool"
        case Text():
            return "text"
        case ToolCall():
            return "tool_use"
        case ToolResult():
            return "tool_result"
        case Thinking():
            return "thinking"
        case _:
            assert_never(content)


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
