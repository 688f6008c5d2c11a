"""Applies frames to another agent's conversation: hides what an open frame need not see, and folds popped frames.

- A frame begins with an answered ``push_frame`` of our memory server and ends with an answered ``pop_frame``.
- While a frame is open, everything between the conversation's opening and its push is left out.
- After a pop, everything between the push and the pop is left out, and the frame's result becomes the answer to the
  push. If the user wrote something together with the pop, the pop stays, so that no user text is lost.
- The same beginning is always cut the same way, in whole exchanges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.doors.gateway.wires.wire import ForeignMessage, ForeignRequest, has_identity

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
_PUSHED = re.compile(r"\bFRAME .{1,200}?, depth \d+ of \d+")
_POPPED = re.compile(r"\bframe .{1,200}? returned:")
_LOOKED_AT = 1_000


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
        open_frames: list[tuple[int, str]] = []
        hidden: set[int] = set()
        answers: dict[int, dict[str, str]] = {}
        bound: set[int] = set()
        for number, exchange in enumerate(told):
            if hidden or (open_frames and open_frames[-1][0]):
                bound.add(number)
            for kind, call_id, text in _framing(request.messages, exchange):
                if kind == "push_frame":
                    open_frames.append((number, call_id))
                elif open_frames:
                    pushed, push_id = open_frames.pop()
                    hidden |= set(range(pushed + 1, number))
                    if not _has_words(request.messages[exchange.told : exchange.end]):
                        hidden.add(number)
                        answers.setdefault(pushed, {})[push_id] = text
        if open_frames:
            hidden |= set(range(open_frames[-1][0]))
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
    homes: dict[str, set[int]] = {}
    for at, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall | ToolResult):
                call_id = part.id if isinstance(part, ToolCall) else part.call_id
                homes.setdefault(call_id, set()).add(place.get(at, -1))
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


def _framing(messages: Sequence[ForeignMessage], exchange: ForeignExchange) -> Iterator[tuple[str, str, str]]:
    """Yield each call of an exchange that began or ended a frame: its kind, id and answer."""
    parts = [part for message in messages[exchange.said : exchange.end] for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    for part in parts:
        name = _NAME.fullmatch(part.name) if isinstance(part, ToolCall) else None
        if name is None or not isinstance(part, ToolCall):
            continue
        result = results.get(part.id)
        wanted = _PUSHED if name[1] == "push_frame" else _POPPED
        if result is not None and not result.failed and wanted.search(result.text[:_LOOKED_AT]):
            yield name[1], part.id, result.text
