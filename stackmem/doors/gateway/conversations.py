"""Assigns each request to a conversation by its content, without help from the client.

- A request that continues the end of a known conversation is its next turn; one that continues an earlier point is
  an edit.
- A new conversation is a child of the open call that contains its first words. Otherwise it is a child of the
  conversation that waits for call results, if there is exactly one.
- A new conversation that begins with the last words of another one continues it: the client compacted its history.
- A request with a single message, and without tools or for JSON output, is a side request if another conversation
  has tools.
- A conversation grows only by a reply. A failed request leaves it unchanged, so a retry matches it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from threading import RLock
from typing import Literal

from msgspec import Struct, field

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text, ToolCall
from stackmem.doors.gateway.wires.wire import ForeignMessage, ForeignRequest, message

from .identity import ChainIndex, PrefixChain, grown, unseen

Kind = Literal["new", "turn", "edit", "child", "compacted", "side"]

_MAX_CONVERSATIONS = 4_096
_SHORTEST_SUMMARY = 80
_SHORTEST_PROMPT = 8
_MAX_TEXTS = 64
_MAX_LOOKED_AT = 256 * 1024
"""Characters of each text that are searched for words of other conversations, limited because of the lock."""


class ForeignConversation(Struct):
    """One known conversation."""

    number: int
    group: bytes  # wire format and key: children are searched only within the same group
    tip: bytes  # digest of the whole content, of ``length`` blocks
    length: int = 0
    tools: bool = False
    calls: tuple[ToolCall, ...] = ()  # calls of its last reply that still wait for results
    words: str = ""  # text of its last reply, if the reply made no calls
    asked: set[bytes] = field(default_factory=set)  # digests of request bodies in progress or failed
    digests: list[bytes] = field(default_factory=list)  # the conversation's entries in the index


class Placed(Struct, frozen=True):
    """The conversation that a request belongs to."""

    conversation: int
    kind: Kind  # relation of the request to the conversation
    chain: PrefixChain
    told: tuple[ForeignMessage, ...]  # messages that were not known before
    known: int = 0  # number of blocks that were known before
    retry: bool = False  # the same body is in progress or has failed
    # for a child, the conversation it works for; ``call_id`` is the call, if it is certain
    parent: int | None = None
    call_id: str = ""


class Conversations:
    """All remembered conversations: at most 4,096; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, ForeignConversation] = OrderedDict()
        self._index = ChainIndex()
        self._count = 0
        self._lock = RLock()

    def place(self, request: ForeignRequest, found: PrefixChain, group: bytes, body: bytes) -> Placed:
        """Assign a request; ``body`` is the digest of its bytes. The request counts as in progress from here on."""
        with self._lock:
            return self._place(request, found, group, body)

    def _place(self, request: ForeignRequest, found: PrefixChain, group: bytes, body: bytes) -> Placed:
        match = self._index.longest(found)
        held = self._known.get(match[0]) if match is not None else None
        if match is not None and held is not None:
            kind: Kind = "turn" if (match[1], found.digests[match[1]]) == (held.length, held.tip) else "edit"
            retry = body in held.asked
            held.asked.add(body)
            self._known.move_to_end(held.number)
            return Placed(held.number, kind, found, unseen(request.messages, match[1], len(found)), match[1], retry)
        return self._new(request, found, group, body)

    def _new(self, request: ForeignRequest, found: PrefixChain, group: bytes, body: bytes) -> Placed:
        retried = next((one for one in self._known.values() if body in one.asked and not one.length), None)
        if retried is not None:
            return Placed(retried.number, "new", found, request.messages, retry=True)
        others = [one for one in reversed(self._known.values()) if one.group == group]
        texts = (part.text for one in request.messages for part in one.parts if isinstance(part, Text))
        opening = "\n".join(text[:_MAX_LOOKED_AT] for text in islice(texts, _MAX_TEXTS))
        before = next((one for one in others if one.words and one.words in opening), None)
        if before is not None and not before.calls:
            before.asked.add(body)
            return Placed(before.number, "compacted", found, request.messages)
        short = sum(one.role != "system" for one in request.messages) == 1
        side = short and (request.wants_json or not request.tools) and any(one.tools for one in others)
        parent, call_id = (None, "") if side else _parent(others, opening)
        self._count += 1
        kind: Kind = "side" if side else "new" if parent is None else "child"
        made = ForeignConversation(self._count, group, found.digests[0], tools=bool(request.tools), asked={body})
        self._known[made.number] = made
        if len(self._known) > _MAX_CONVERSATIONS:
            self.forget([next(iter(self._known))])
        return Placed(made.number, kind, found, request.messages, parent=parent, call_id=call_id)

    def answered(self, placed: Placed, reply: ModelReplied, body: bytes) -> bool:
        """Add a reply. Return whether the conversation had already moved on from the request's starting point."""
        with self._lock:
            return self._answered(placed, reply, body)

    def _answered(self, placed: Placed, reply: ModelReplied, body: bytes) -> bool:
        held = self._known.get(placed.conversation)
        if held is None:
            return False
        elsewhere = placed.kind == "turn" and held.tip != placed.chain.digests[placed.known]
        held.asked.discard(body)
        added = list(grown(placed.chain.tip, said(reply)))
        unknown = [*placed.chain.digests[placed.known + 1 :], *added]
        self._index.add(unknown, held.number)
        held.digests += unknown
        held.tip, held.length = (added or [placed.chain.tip])[-1], len(placed.chain) + len(added)
        held.calls = tuple(part for part in reply.parts if isinstance(part, ToolCall))
        words = "\n".join(part.text for part in reply.parts if isinstance(part, Text)).strip()
        held.words = words if not held.calls and len(words) >= _SHORTEST_SUMMARY else ""
        return elsewhere

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget conversations; later requests that continue them count as new."""
        with self._lock:
            for number in numbers:
                held = self._known.pop(number, None)
                if held is not None:
                    self._index.remove(held.digests, number)


def said(reply: ModelReplied) -> ForeignMessage:
    """Return a reply in the form in which the client will send it back."""
    return message("assistant", reply.parts)


def _parent(others: list[ForeignConversation], opening: str) -> tuple[int | None, str]:
    """Return the conversation and the call whose text contains the words of a new conversation."""
    waiting = [one for one in others if one.calls]
    for one in waiting:
        for call in one.calls:
            given = call.arguments.values() if isinstance(call.arguments, dict) else ()
            texts = (value.strip() for value in given if isinstance(value, str))
            if any(len(text) >= _SHORTEST_PROMPT and text in opening for text in texts):
                return one.number, call.id
    return (waiting[0].number, "") if len(waiting) == 1 else (None, "")
