"""Prompts as ranges of parts.

A part (a text, a call, a result, a tool's description) is stored once. A sequence is a list of parts that grows at
its end: sequence 0 contains everything before the messages, and each frame has its own. A prompt is a flat list of
triples ``sequence, from, to``. The prompt of a frame that only appends is two triples, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, assert_never

from msgspec import UNSET, json

from stackmem.core.facts import RunStarted
from stackmem.core.images import ImageRef, listed
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, View
from stackmem.core.strategy import budgets_of
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots, spec
from stackmem.core.tools import OPTIONAL_TOOLS
from stackmem.memory import open_strategy
from stackmem.run.prompts import prompt_text
from stackmem.trace.imported import imported_from

from .texts import Texts, chars_of

COMPARED = ("full", "mask", "summary", "adaptive")
"""Strategies whose prompts a page estimates."""

Range = tuple[int, int, int]


def standing_chars(start: RunStarted) -> dict[str, list[int]]:
    """Return the characters that a run would have in each prompt under the strategies to compare with.

    The lists contain those of the tools, of the system prompt, and of the texts that the strategy adds later. Empty for
    imported runs and for small models, whose prompts a strategy does not replace.
    """
    if imported_from(start) or start.small is not UNSET:
        return {}
    chars_by_strategy = {}
    for name in COMPARED:
        strategy = open_strategy(name)
        slots = prompt_slots(budgets_of(strategy, start.budgets), start.command_seconds)
        tools = [spec(tool, slots) for tool in strategy.tools]
        tools += [tool for tool in start.tools if tool.name in OPTIONAL_TOOLS and tool.name not in start.registered]
        texts = [len(fill(prompt_text(text), slots)) for text in getattr(strategy, "texts", ()) if name == "adaptive"]
        chars = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in tools)
        chars_by_strategy[name] = [chars, len(fill(prompt_text(strategy.prompt), slots)), *texts]
    return chars_by_strategy


def no_picture(ref: ImageRef) -> str:
    return ""


class _FramePrompts:
    """The last prompt of a frame, and the position of each of its messages."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.messages: Log[Message] = Log()
        self.spots: list[Range] = []
        self.merged: list[Range] = []
        self.ranges: dict[bytes, Range] = {}


class Prompts:
    """All prompts of one run."""

    def __init__(
        self, texts: Texts, parts: list[Any], numbers: dict[bytes, int], picture: Callable[[ImageRef], str] = no_picture
    ) -> None:
        self._picture = picture  # returns an image as a URL; empty if it is missing
        self.parts = parts  # each part of the page once, in the page's encoding; shared by the page's runs
        self.sequences: list[list[int]] = [[]]  # numbers of parts
        self._numbers = numbers
        self._texts = texts
        self._chars: list[list[int]] = [[0]]
        self._standing: dict[Hashable, Range] = {}
        self._conversations: dict[str, _FramePrompts] = {}

    def add(self, frame: str, view: View, *, appends: bool) -> tuple[list[int], int]:
        """Add a prompt; return its triples, and the number of messages shared with the frame's last one (-1: first).

        ``appends`` says whether the strategy declares that a frame's messages are only appended to.
        """
        frame_prompts = self._conversations.get(frame)
        first = frame_prompts is None
        if frame_prompts is None:
            self.sequences.append([])
            self._chars.append([0])
            frame_prompts = self._conversations[frame] = _FramePrompts(len(self.sequences) - 1)
        shared = _common(frame_prompts.messages, view.messages, appends=appends)
        if shared < len(frame_prompts.messages):
            frame_prompts.merged = _merged(frame_prompts.spots[:shared])
            del frame_prompts.spots[shared:]
        fresh = [
            self._message(frame_prompts, view.messages[position]) for position in range(shared, len(view.messages))
        ]
        frame_prompts.merged = _merged(fresh, frame_prompts.merged)
        frame_prompts.spots += fresh
        frame_prompts.messages = view.messages
        flat = [bound for item in (*self._before(view), *frame_prompts.merged) for bound in item]
        return flat, -1 if first else shared

    def chars(self, triples: list[int]) -> int:
        """Count the characters of a prompt."""
        bounds = zip(triples[::3], triples[1::3], triples[2::3], strict=True)
        return sum(self._chars[sequence][end] - self._chars[sequence][start] for sequence, start, end in bounds)

    def number(self, part: Part, role: str) -> int:
        """Return the number of a part, adding it if it is new."""
        return self._numbered(self._encoded(part, role))

    def _before(self, view: View) -> list[Range]:
        """Return the ranges of the system prompt and the tools."""
        system = self._standing.get(view.system)
        if system is None:
            system_part = ["s", self._texts.lines(view.system)]
            system = self._standing[view.system] = self._append(0, [(system_part, len(view.system))])
        tools = self._standing.get(view.tools)
        if tools is None:
            encoded = [
                (["d", tool.name, self._texts.ref(tool.description), self._texts.ref(tool.schema)],
                 len(tool.name) + len(tool.description) + len(tool.schema))
                for tool in view.tools
            ]  # fmt: skip
            tools = self._standing[view.tools] = self._append(0, encoded)
        return _merged([system, tools])

    def _message(self, frame_prompts: _FramePrompts, message: Message) -> Range:
        key = json.encode(message)
        if key not in frame_prompts.ranges:
            encoded = [(self._encoded(part, message.role), part_chars(part)) for part in message.parts]
            frame_prompts.ranges[key] = self._append(frame_prompts.sequence, encoded)
        return frame_prompts.ranges[key]

    def _append(self, sequence: int, parts: list[tuple[list[Any], int]]) -> Range:
        start = len(self.sequences[sequence])
        self.sequences[sequence] += [self._numbered(part) for part, _ in parts]
        sums = self._chars[sequence]
        sums += list(accumulate((chars for _, chars in parts), initial=sums[-1]))[1:]
        return sequence, start, start + len(parts)

    def _numbered(self, encoded: list[Any]) -> int:
        key = json.encode(encoded)
        if key not in self._numbers:
            self._numbers[key] = len(self.parts)
            self.parts.append(encoded)
        return self._numbers[key]

    def _encoded(self, part: Part, role: str) -> list[Any]:
        match part:
            case Text():
                text = self._texts.lines(part.text) if role == "user" else self._texts.ref(part.text)
                return ["t", role[0], text, *self._pictures(part)]
            case Thinking():
                return ["k", self._texts.ref(_thought(part))]
            case ToolCall():
                if part.malformed is not None:
                    return ["m", part.name, self._texts.ref(part.malformed), part.id]
                return ["c", part.name, self._texts.value(part.arguments), part.id]
            case ToolResult():
                return ["r", self._texts.ref(part.text), int(part.failed), part.call_id, *self._pictures(part)]
            case _:
                assert_never(part)

    def _pictures(self, part: Text | ToolResult) -> list[list[str]]:
        pictures = [url for ref in listed(part.images) if (url := self._picture(ref))]
        return [pictures] if pictures else []


def part_chars(part: Part) -> int:
    """Count the characters of a part, approximately as a provider does."""
    match part:
        case Text() | ToolResult():
            return len(part.text)
        case Thinking():
            return len(_thought(part))
        case ToolCall():
            malformed = part.malformed if part.malformed is not None else ""
            return len(part.name) + (len(malformed) or chars_of(part.arguments))
        case _:
            assert_never(part)


def _thought(part: Thinking) -> str:
    """Return a thinking block's text, or the whole block as JSON if it has none."""
    words = part.raw.get("thinking")
    return words if isinstance(words, str) else json.encode(part.raw).decode()


def _common(old: Log[Message], new: Log[Message], *, appends: bool) -> int:
    """Count the messages that both start with."""
    if appends and old and len(old) <= len(new) and new[len(old) - 1] == old[-1]:
        return len(old)
    for position, (before, now) in enumerate(zip(old, new, strict=False)):
        if before is not now and before != now:
            return position
    return min(len(old), len(new))


def _merged(ranges: Sequence[Range], onto: Sequence[Range] = ()) -> list[Range]:
    """Append ranges to ``onto``, joining adjacent ones."""
    joined = list(onto)
    for sequence, start, end in ranges:
        if joined and joined[-1][0] == sequence and joined[-1][2] == start:
            joined[-1] = (sequence, joined[-1][1], end)
        elif end > start:
            joined.append((sequence, start, end))
    return joined
