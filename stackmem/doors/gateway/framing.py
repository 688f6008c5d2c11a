"""Applies frames to another agent's conversation: hides what an open frame need not see, and folds popped frames.

- A frame begins with an answered ``push_frame`` of our memory server and ends with an answered ``pop_frame``.
- While a frame is open, everything between the conversation's opening and its push is left out.
- After a pop, everything between the push and the pop is left out, and the frame's result becomes the answer to the
  push. If the user wrote something together with the pop, the pop stays, so that no user text is lost.
- A program that makes the calls for the agent counts if its output contains the server's marks. Its exchanges stay,
  because they may contain more than the frame.
- Only marks with the server's seal count, because files and outputs may contain the same text.
- The result of a tool search stays, because the frame could not call the tools that it defines, such as the pop.
- The same beginning is always cut the same way, in whole exchanges.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

from msgspec import Struct

from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.doors.gateway.wires.wire import ForeignMessage, ForeignRequest, defines_tools, has_identity
from stackmem.doors.mcp.frame_marks import POPPED, PUSHED, FrameMark, marks_in
from stackmem.foreign.private import UnusableKey
from stackmem.settings.frame_key import frame_keys

from .cutting import (
    Cutter,
    ForeignCut,
    ForeignExchange,
    begins_loop,
    begins_turn,
    exchanges,
    foreign_strategy,
)
from .identity import PrefixChain

FRAMES = "stackheap"
_NAME = re.compile(r"(?:.*[^A-Za-z0-9])?(push_frame|pop_frame)", re.DOTALL)
"""Clients prefix the tool name with the server's name: ``mcp__stackmem__push_frame``."""
_LOOKED_AT = 1_000
_SEARCHED_CHARS = 256 << 10
_MAX_CHECKED = 4_096

IsGenuine = Callable[[FrameMark], bool]
"""Decides whether our memory server wrote a mark."""


class SealedMarks:
    """Checks marks by the key that the memory servers of this user share."""

    def __init__(self, environ: Mapping[str, str], keys: tuple[bytes, ...] = ()) -> None:
        """Check with the keys of the user's state directory, or only with these."""
        self._environ, self._keys = environ, keys
        self._checked: dict[str, bool] = {}
        self._lock = Lock()
        self.problem = ""  # why a key could not be used

    def __call__(self, mark: FrameMark) -> bool:
        with self._lock:
            if mark.text not in self._checked:
                if len(self._checked) >= _MAX_CHECKED:
                    self._checked.clear()
                # Read again for each mark: the first server of a user creates the key after the gateway's start.
                self._checked[mark.text] = any(map(mark.is_sealed_with, self._keys or self._read_keys()))
            return self._checked[mark.text]

    def _read_keys(self) -> tuple[bytes, ...]:
        try:
            return frame_keys(self._environ)
        except UnusableKey as error:
            self.problem = str(error)
            return ()


def cutter_of(spelled: str, is_genuine: IsGenuine = lambda _: False) -> Cutter | FrameCutter | None:
    """Return the cutter for a strategy with its parameters; None for ``full``, which changes nothing.

    Raise UsageError if the strategy does not exist, or does not work with other agents.
    """
    if spelled == FRAMES:
        return FrameCutter(is_genuine)
    strategy = foreign_strategy(spelled)
    return Cutter(strategy) if strategy is not None else None


def genuine_marks(messages: Sequence[ForeignMessage], is_genuine: IsGenuine) -> tuple[str, ...]:
    """Return the marks of our memory server in messages, each once."""
    results = (part for message in messages for part in message.parts if isinstance(part, ToolResult))
    marks = (mark for part in results for mark in marks_in(part.text[:_SEARCHED_CHARS]))
    return tuple(dict.fromkeys(mark.text for mark in marks if is_genuine(mark)))


class FrameCutter:
    """Cuts by the frames that an agent pushed and popped; each request is decided on its own."""

    def __init__(self, is_genuine: IsGenuine) -> None:
        self._is_genuine = is_genuine

    def cut(self, request: ForeignRequest, chain: PrefixChain) -> ForeignCut:
        """Return the exchanges to hide, and the new answers of pushes."""
        past = exchanges(request.messages)
        if request.continues:
            return ForeignCut(past)
        open_frames: list[FrameEvent] = []
        marks: set[tuple[str, str]] = set()
        hidden: set[int] = set()
        answers: dict[int, dict[str, str]] = {}
        bound: set[int] = set()
        for number, exchange in enumerate(past):
            if hidden or (open_frames and open_frames[-1].exchange):
                bound.add(number)
            for event in _events(request.messages, exchange, number, self._is_genuine):
                if (event.kind, event.mark) in marks if event.mark else marks:
                    continue  # an old answer that the agent reads again, or a text that only looks like an answer
                if event.mark:
                    marks.add((event.kind, event.mark))
                if event.kind == "push_frame":
                    open_frames.append(event)
                elif open_frames:
                    pushed = _ended(open_frames, event)
                    hidden |= set(range(pushed.exchange + 1, number))
                    alone = not _has_words(request.messages[exchange.results : exchange.end])
                    if alone and pushed.is_direct and event.is_direct:
                        hidden.add(number)
                        answers.setdefault(pushed.exchange, {})[pushed.call_id] = event.text
        if open_frames:
            hidden |= set(range(open_frames[-1].exchange))
        hidden -= {number for number in hidden if _defines_tools(request.messages, past[number])}
        hidden = _closed(request.messages, past, hidden)
        if request.needs_thinking:
            hidden = _with_thinking(request.messages, past, hidden)
        visible = {number: texts for number, texts in answers.items() if number not in hidden}
        return ForeignCut(
            past, len(hidden), len(visible), hidden=frozenset(hidden), answers=visible, bound=frozenset(bound)
        )

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        """Return the result unchanged."""
        return result


def _closed(messages: Sequence[ForeignMessage], past: tuple[ForeignExchange, ...], hidden: set[int]) -> set[int]:
    """Return the hidden exchanges that can go without separating a call from its result."""
    numbers = {at: number for number, exchange in enumerate(past) for at in range(exchange.reply, exchange.end)}
    homes: dict[tuple[str, int], set[int]] = {}
    uses: Counter[str] = Counter()  # some formats use an id again: a result belongs to the last call before it
    for at, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall | ToolResult):
                call_id = part.id if isinstance(part, ToolCall) else part.call_id
                uses[call_id] += isinstance(part, ToolCall) and call_id.startswith("#")
                homes.setdefault((call_id, uses[call_id]), set()).add(numbers.get(at, -1))
    parted = [home for home in homes.values() if len(home) > 1]
    closed = set(hidden)
    while exposed := {number for home in parted if home - closed for number in home & closed}:
        closed -= exposed
    return closed


def _with_thinking(messages: Sequence[ForeignMessage], past: tuple[ForeignExchange, ...], hidden: set[int]) -> set[int]:
    """Return the hidden exchanges, except those that must begin the visible part of a tool loop."""
    begin, started, exposed = 0, False, set[int]()
    for number in range(len(past)):
        started = started and not begins_turn(messages, past, number)
        if fits := begins_loop(messages, past, number):
            begin = number
        if number not in hidden:
            if not started and not fits:
                exposed.add(begin)
            started = True
    return _with_thinking(messages, past, _closed(messages, past, hidden - exposed)) if exposed else hidden


def _defines_tools(messages: Sequence[ForeignMessage], exchange: ForeignExchange) -> bool:
    return any(defines_tools(part) for message in messages[exchange.results : exchange.end] for part in message.parts)


def _has_words(messages: Sequence[ForeignMessage]) -> bool:
    """Return whether the messages may contain text by the user, in addition to tool results."""
    return any(has_identity(part) for message in messages for part in message.parts if isinstance(part, Text))


class FrameEvent(Struct, frozen=True):
    """An answered push or pop."""

    kind: str
    exchange: int
    call_id: str
    text: str  # the answer
    mark: str = ""  # the frame's id; empty if the server wrote none
    is_direct: bool = True  # whether the agent called the tool itself, and not through a program


def _ended(open_frames: list[FrameEvent], pop: FrameEvent) -> FrameEvent:
    """Remove and return the frame that a pop ended: the one with its id, otherwise the newest."""
    same_id = [number for number, event in enumerate(open_frames) if pop.mark and event.mark == pop.mark]
    position = same_id[-1] if same_id else -1
    pushed = open_frames[position]
    del open_frames[position:]
    return pushed


def _events(
    messages: Sequence[ForeignMessage], exchange: ForeignExchange, number: int, is_genuine: IsGenuine
) -> Iterator[FrameEvent]:
    """Yield each event of an exchange.

    A call of another tool counts if it names the frame tool and its result has the server's mark: Codex calls tools
    from programs.
    """
    parts = [part for message in messages[exchange.reply : exchange.end] for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    for call in (part for part in parts if isinstance(part, ToolCall)):
        result = results.get(call.id)
        if result is None or result.failed:
            continue
        marks = [mark for mark in marks_in(result.text[:_SEARCHED_CHARS]) if is_genuine(mark)]
        direct = _NAME.fullmatch(call.name)
        if direct is not None:
            pattern = PUSHED if direct[1] == "push_frame" else POPPED
            if pattern.search(result.text[:_LOOKED_AT]):
                # the server appends its mark to the answer, which may quote an earlier one
                frame_id = next((mark.frame_id for mark in reversed(marks) if mark.tool == direct[1]), "")
                yield FrameEvent(direct[1], number, call.id, result.text, frame_id)
            continue
        program = call.malformed or json.dumps(call.arguments)
        for mark in marks:
            if mark.tool in program:
                yield FrameEvent(mark.tool, number, call.id, result.text, mark.frame_id, is_direct=False)
