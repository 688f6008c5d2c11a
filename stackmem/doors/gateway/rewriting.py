"""Rewrites a request's body for a strategy: drops whole messages, shortens results, and copies the rest.

- Unchanged messages keep their exact bytes; shortened ones always get the same encoding, so that caches match.
- Cache marks are never added, and shortened messages lose theirs, so there are never more than the client sent.
- Some providers sign thinking over everything before it. After the first change, such thinking is removed. It is
  also removed if the model gave it in a cut conversation that is no longer cut. Thinking that the provider demands
  stays.
- System messages of dropped exchanges stay. They are merged if the provider accepts only one in a row.
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

from .cutting import ForeignCut, ForeignExchange
from .identity import shared

Shortened = Callable[[ToolResult, int], ToolResult]
_MAX_RECENT = 64


class ShownConversation(Struct, frozen=True):
    """A conversation in the form that was sent."""

    raw: tuple[bytes, ...] = ()  # its messages as received
    cut: ForeignCut = ForeignCut(())
    # message bytes of the opening and of each exchange; empty for dropped ones
    pieces: tuple[bytes, ...] = ()
    changed: tuple[bool, ...] = ()  # for each piece, whether it or an earlier one was changed

    def reusable_pieces(self, raw: tuple[bytes, ...], cut: ForeignCut) -> int:
        """Return how many pieces can be reused for other messages under another cut."""
        before = self.cut
        if cut.hidden is not None or (before.dropped, before.head) != (cut.dropped, cut.head):
            return 0
        alike = shared(self.raw, raw)
        count = len(self.pieces) - 1 if before.short == cut.short else min(before.short, cut.short)
        count = min(count, len(self.pieces) - 1, len(cut.exchanges))
        while count > 0 and before.exchanges[count - 1].end >= alike:
            count -= 1
        # The opening's piece includes the system messages of the dropped exchanges.
        return count + 1 if self.pieces and count >= cut.dropped and cut.exchanges[0].reply <= alike else 0


class Rewriter:
    """Rewrites bodies; if a conversation continues under the same cut, only new messages are rewritten."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, ShownConversation] = OrderedDict()
        self._lock = Lock()

    def rewrite(
        self, body: bytes, wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Shortened
    ) -> bytes:
        """Apply the cut to a body; return the same body if there is nothing to change.

        Raise ValueError if the body's messages cannot be replaced, or no message has room for the note about dropped
        messages.
        """
        if not cut.exchanges or not (cut.dropped or cut.short or cut.bound):
            return body
        key = id(request.messages[0])
        with self._lock:
            before = self._recent.pop(key, ShownConversation())
        conversation = _shown_conversation(wire, request, cut, shorten, before)
        with self._lock:
            self._recent[key] = conversation
            if len(self._recent) > _MAX_RECENT:
                self._recent.popitem(last=False)
        last = request.raw[cut.exchanges[-1].end :]
        unbound = _unbound_of(wire, request)
        behind = map(unbound, last) if conversation.changed[-1] and unbound else last
        pieces = [*conversation.pieces, *behind]
        if not conversation.changed[-1]:
            return body
        if request.span is None:
            raise ValueError("the messages cannot be found in the body")
        begin, end = request.span
        return body[:begin] + b",".join(filter(None, pieces)) + body[end:]


def _unbound_of(wire: WireFormat, request: ForeignRequest) -> Callable[[bytes], bytes] | None:
    return None if request.needs_thinking else wire.unbound


def _shown_conversation(
    wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Shortened, before: ShownConversation
) -> ShownConversation:
    reused = before.reusable_pieces(request.raw, cut)
    pieces, changes = list(before.pieces[:reused]), list(before.changed[:reused])
    messages: list[bytes] = []  # the last piece that is not dropped; ``systems`` is how many system messages end it
    systems = 0
    if not reused:
        messages = list(request.raw[: cut.exchanges[0].reply])
        systems = _systems_at_end(request, cut.exchanges[0].reply)
        if cut.head:
            messages = _with_head(wire, request, messages, cut.head)
        pieces, changes = [b",".join(messages)], [bool(cut.head)]
    home = len(pieces) - 1
    for number in range(len(pieces) - 1, len(cut.exchanges)):
        if cut.drops(number):
            stays = _systems(request, cut.exchanges[number])
            if stays:
                messages, systems = _joined(wire, messages, systems, stays)
                pieces[home] = b",".join(messages)
            pieces.append(b"")
            changes.append(True)
            continue
        messages, changed = _exchange(wire, request, cut, shorten, number, changed=changes[-1])
        systems = _systems_at_end(request, cut.exchanges[number].end)
        home = len(pieces)
        pieces.append(b",".join(messages))
        changes.append(changed)
    return ShownConversation(request.raw, cut, tuple(pieces), tuple(changes))


def _systems(request: ForeignRequest, exchange: ForeignExchange) -> list[bytes]:
    return [
        request.raw[position]
        for position in range(exchange.reply, exchange.end)
        if request.messages[position].role == "system"
    ]


def _systems_at_end(request: ForeignRequest, end: int) -> int:
    """Return the number of system messages directly before a message."""
    begin = end
    while begin and request.messages[begin - 1].role == "system":
        begin -= 1
    return end - begin


def _joined(wire: WireFormat, messages: list[bytes], systems: int, more: list[bytes]) -> tuple[list[bytes], int]:
    """Append system messages to messages that end with ``systems`` of them; return them and the new number."""
    if wire.merged is None or systems + len(more) == 1:
        return [*messages, *more], systems + len(more)
    end = len(messages) - systems
    return [*messages[:end], wire.merged([*messages[end:], *more])], 1


def _exchange(
    wire: WireFormat, request: ForeignRequest, cut: ForeignCut, shorten: Shortened, number: int, *, changed: bool
) -> tuple[list[bytes], bool]:
    """Return the messages of an exchange as sent, and whether anything up to here was changed."""
    exchange = cut.exchanges[number]
    messages = list(request.raw[exchange.reply : exchange.results])
    unbound = _unbound_of(wire, request)
    if unbound and (changed or number in cut.bound):
        free = list(map(unbound, messages))
        messages, changed = free, changed or free != messages
    shortens, shorten_result = cut.shortens(number), partial(_sent_result, cut, shorten, number)
    for position in range(exchange.results, exchange.end):
        raw = request.raw[position]
        # Most messages of a long conversation contain no result, so skip parsing them at every turn.
        holds = shortens and any(isinstance(part, ToolResult) for part in request.messages[position].parts)
        short = wire.shortened(raw, shorten_result) if holds else raw
        changed = changed or short != raw
        messages.append(short)
    return messages, changed


def _sent_result(
    cut: ForeignCut, shorten: Callable[[ToolResult, int], ToolResult], number: int, result: ToolResult
) -> ToolResult:
    answer = cut.answers.get(number, {}).get(result.call_id)
    return shorten(result, number + 1) if answer is None else replace(result, text=answer)


def _with_head(wire: WireFormat, request: ForeignRequest, messages: list[bytes], head: str) -> list[bytes]:
    for position in range(len(messages) - 1, -1, -1):
        if request.messages[position].role == "user":
            return [*messages[:position], wire.added(messages[position], head), *messages[position + 1 :]]
    raise ValueError("the conversation does not begin with a user message")
