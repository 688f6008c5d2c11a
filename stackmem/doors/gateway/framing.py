"""Applies frames to another agent's conversation: hides what an open frame need not see, and folds popped frames.

- A frame begins with an answered ``push_frame`` of our memory server and ends with an answered ``pop_frame``.
- While a frame is open, everything between the conversation's opening and its push is left out.
- After a pop, everything between the push and the pop is left out, and the frame's result becomes the answer to the
  push. If the user wrote something together with the pop, the pop stays, so that no user text is lost.
- A program that makes the calls for the agent counts if its output contains the server's marks. Its exchanges stay,
  because they may contain more than the frame.
- The same beginning is always cut the same way, in whole exchanges.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.doors.gateway.wires.wire import ForeignMessage, ForeignRequest, has_identity
from stackmem.doors.mcp.frame_marks import POPPED, PUSHED, marks_in

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


def cutter_of(spelled: str) -> Cutter | FrameCutter | None:
    """Return the cutter for a strategy with its parameters; None for ``full``, which changes nothing.

    Raises:
        UsageError: The strategy does not exist, or does not work with other agents.
    """
    if spelled == FRAMES:
        return FrameCutter()
    strategy = foreign_strategy(spelled)
    return Cutter(strategy) if strategy is not None else None


class FrameCutter:
    """Cuts by the frames that an agent pushed and popped; each request is decided on its own."""

    def cut(self, request: ForeignRequest, chain: PrefixChain) -> ForeignCut:
        """Return the exchanges to hide, and the new answers of pushes."""
        told = exchanges(request.messages)
        if request.continues:
            return ForeignCut(told)
        open_frames: list[FrameEvent] = []
        marks: set[tuple[str, str]] = set()
        hidden: set[int] = set()
        answers: dict[int, dict[str, str]] = {}
        bound: set[int] = set()
        for number, exchange in enumerate(told):
            if hidden or (open_frames and open_frames[-1].exchange):
                bound.add(number)
            for event in _events(request.messages, exchange, number):
                if event.mark and (event.kind, event.mark) in marks:
                    continue  # the agent reads an old answer again
                marks.add((event.kind, event.mark))
                if event.kind == "push_frame":
                    open_frames.append(event)
                elif open_frames:
                    pushed = _ended(open_frames, event)
                    hidden |= set(range(pushed.exchange + 1, number))
                    alone = not _has_words(request.messages[exchange.told : exchange.end])
                    if alone and pushed.is_direct and event.is_direct:
                        hidden.add(number)
                        answers.setdefault(pushed.exchange, {})[pushed.call_id] = event.text
        if open_frames:
            hidden |= set(range(open_frames[-1].exchange))
        hidden = _closed(request.messages, told, hidden)
        if request.needs_thinking:
            hidden = _with_thinking(request.messages, told, hidden)
        shown = {number: given for number, given in answers.items() if number not in hidden}
        return ForeignCut(
            told, len(hidden), len(shown), hidden=frozenset(hidden), answers=shown, bound=frozenset(bound)
        )

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        """Return the result unchanged."""
        return result


def _closed(messages: Sequence[ForeignMessage], told: tuple[ForeignExchange, ...], hidden: set[int]) -> set[int]:
    """Return the hidden exchanges that can go without separating a call from its result."""
    place = {at: number for number, exchange in enumerate(told) for at in range(exchange.said, exchange.end)}
    homes: dict[tuple[str, int], set[int]] = {}
    uses: Counter[str] = Counter()  # some formats use an id again: a result belongs to the last call before it
    for at, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall | ToolResult):
                call_id = part.id if isinstance(part, ToolCall) else part.call_id
                uses[call_id] += isinstance(part, ToolCall) and call_id.startswith("#")
                homes.setdefault((call_id, uses[call_id]), set()).add(place.get(at, -1))
    parted = [home for home in homes.values() if len(home) > 1]
    closed = set(hidden)
    while shown := {number for home in parted if home - closed for number in home & closed}:
        closed -= shown
    return closed


def _with_thinking(messages: Sequence[ForeignMessage], told: tuple[ForeignExchange, ...], hidden: set[int]) -> set[int]:
    """Return the hidden exchanges, except those that must begin the visible part of a tool loop."""
    begin, begun, shown = 0, False, set[int]()
    for number in range(len(told)):
        begun = begun and not begins_turn(messages, told, number)
        if fits := begins_loop(messages, told, number):
            begin = number
        if number not in hidden:
            if not begun and not fits:
                shown.add(begin)
            begun = True
    return _with_thinking(messages, told, _closed(messages, told, hidden - shown)) if shown else hidden


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


def _events(messages: Sequence[ForeignMessage], exchange: ForeignExchange, number: int) -> Iterator[FrameEvent]:
    """Yield each event of an exchange.

    A call of another tool counts if it names the frame tool and its result has the server's mark: Codex calls tools
    from programs.
    """
    parts = [part for message in messages[exchange.said : exchange.end] for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    for call in (part for part in parts if isinstance(part, ToolCall)):
        result = results.get(call.id)
        if result is None or result.failed:
            continue
        marks = list(marks_in(result.text[:_SEARCHED_CHARS]))
        direct = _NAME.fullmatch(call.name)
        if direct is not None:
            pattern = PUSHED if direct[1] == "push_frame" else POPPED
            if pattern.search(result.text[:_LOOKED_AT]):
                mark = next((frame_id for kind, frame_id in marks if kind == direct[1]), "")
                yield FrameEvent(direct[1], number, call.id, result.text, mark)
            continue
        program = call.malformed or json.dumps(call.arguments)
        for kind, frame_id in marks:
            if kind in program:
                yield FrameEvent(kind, number, call.id, result.text, frame_id, is_direct=False)
