"""A request's body as a strategy shows it: whole messages left out, results shortened, the rest as it came.

Rule 1: the bytes of a message that no strategy changes go on as they are; a shortened one is spelled one way only.
Rule 2: no cache mark is added, and one in a shortened message is left out: there are never more than the client's.
Rule 3: where the provider binds thinking to what stands before it, thinking behind the first change is left out, and
    thinking that was given to a conversation that was cut when it no longer is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat

from .cutting import ForeignCut
from .identity import shared

Shortened = Callable[[ToolResult, int], ToolResult]
_MOST_RECENT = 64


class ShownConversation(Struct, frozen=True):
    """A conversation as it was sent."""

    raw: tuple[bytes, ...] = ()  # its messages as they came
    cut: ForeignCut = ForeignCut(())
    # the opening and each exchange, the bytes of their messages; empty for one that is left out
    pieces: tuple[bytes, ...] = ()
    changed: tuple[bool, ...] = ()  # for each of them, whether it or one before it is not as it came

    def known(self, raw: tuple[bytes, ...], cut: ForeignCut) -> int:
        """How many pieces are the same for other messages under another cut."""
        before = self.cut
        if cut.hidden is not None or (before.dropped, before.head) != (cut.dropped, cut.head):
            return 0
        alike = shared(self.raw, raw)
        count = len(self.pieces) - 1 if before.short == cut.short else min(before.short, cut.short)
        count = min(count, len(self.pieces) - 1, len(cut.exchanges))
        while count > 0 and before.exchanges[count - 1].end >= alike:
            count -= 1
        return count + 1 if self.pieces and cut.exchanges[0].said <= alike else 0


class Rewriter:
    """Rewrites bodies; of a conversation that goes on under the same cut, only what is new is written anew."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, ShownConversation] = OrderedDict()
        self._lock = Lock()

    def rewrite(
        self, body: bytes, wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Shortened
    ) -> bytes:
        """The body with the cut made; the body itself where there is nothing to cut."""
        if not cut.exchanges or not (cut.dropped or cut.short or cut.bound):
            return body
        key = id(request.messages[0])
        with self._lock:
            before = self._recent.pop(key, ShownConversation())
        shown = _shown_conversation(wire, request, cut, shorten, before)
        with self._lock:
            self._recent[key] = shown
            if len(self._recent) > _MOST_RECENT:
                self._recent.popitem(last=False)
        last = request.raw[cut.exchanges[-1].end :]
        behind = map(wire.unbound, last) if shown.changed[-1] and wire.unbound else last
        pieces = [*shown.pieces, *behind]
        if not shown.changed[-1]:
            return body
        if request.span is None:
            raise ValueError("the messages cannot be found in the body")
        begin, end = request.span
        return body[:begin] + b",".join(filter(None, pieces)) + body[end:]


def _shown_conversation(
    wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Shortened, before: ShownConversation
) -> ShownConversation:
    known = before.known(request.raw, cut)
    pieces, changes = list(before.pieces[:known]), list(before.changed[:known])
    if not known:
        opening = list(request.raw[: cut.exchanges[0].said])
        if cut.head:
            opening = _with_head(wire, request, opening, cut.head)
        pieces, changes = [b",".join(opening)], [bool(cut.head)]
    for number in range(len(pieces) - 1, len(cut.exchanges)):
        shown, changed = _exchange(wire, request, cut, shorten, number, changed=changes[-1])
        pieces.append(b",".join(shown))
        changes.append(changed)
    return ShownConversation(request.raw, cut, tuple(pieces), tuple(changes))


def _exchange(
    wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Shortened, number: int, *, changed: bool
) -> tuple[list[bytes], bool]:
    """The messages of an exchange as they are sent, and whether one of them or one before is not as it came."""
    one = cut.exchanges[number]
    if cut.drops(number):
        places = range(one.said, one.end)
        return [request.raw[place] for place in places if request.messages[place].role == "system"], True
    shown = list(request.raw[one.said : one.told])
    if wire.unbound and (changed or number in cut.bound):
        said = list(map(wire.unbound, shown))
        shown, changed = said, changed or said != shown
    shortens, known = cut.shortens(number), partial(_shown, cut, shorten, number)
    for place in range(one.told, one.end):
        raw = request.raw[place]
        # Most messages of a long conversation hold no result: those need not be read again at every turn.
        holds = shortens and any(isinstance(part, ToolResult) for part in request.messages[place].parts)
        short = wire.shortened(raw, known) if holds else raw
        changed = changed or short != raw
        shown.append(short)
    return shown, changed


def _shown(
    cut: ForeignCut, shorten: Callable[[ToolResult, int], ToolResult], number: int, result: ToolResult
) -> ToolResult:
    answer = cut.answers.get(number, {}).get(result.call_id)
    return shorten(result, number + 1) if answer is None else replace(result, text=answer)


def _with_head(wire: WireFormat, request: ForeignRequest, shown: list[bytes], head: str) -> list[bytes]:
    for place in range(len(shown) - 1, -1, -1):
        if request.messages[place].role == "user":
            return [*shown[:place], wire.added(shown[place], head), *shown[place + 1 :]]
    raise ValueError("the conversation begins with no message of the user's")
