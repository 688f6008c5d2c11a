"""Assigns each request to a conversation by its content, without help from the client.

- A request that continues the end of a known conversation is its next turn; one that continues an earlier point is
  an edit.
- If the client sends ids of its sessions and agents, a new conversation is related only to those with the same ids.
- A new conversation is a child of the call whose longest text is among its first words. Without ids it is otherwise a
  child of the conversation that waits for call results, if there is exactly one.
- A new conversation that begins with the last words of another one continues it: the client compacted its history.
  So does another history of the same agent or session, if the client sends ids.
- A first request without tools, or for JSON output, is a side request if it has a session's id or another
  conversation has tools. So is one that quotes a reply of a conversation without tools, under other instructions.
- A conversation grows only by a reply. A failed request leaves it unchanged, so a retry matches it again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import RLock
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text, ToolCall
from stackmem.doors.gateway.wires.wire import (
    ForeignMessage,
    ForeignRequest,
    arguments_digest,
    has_unique_id,
    message,
)

from .identity import AgentIds, ChainIndex, PrefixChain, grown, new_messages

Kind = Literal["new", "turn", "edit", "child", "compacted", "side"]

_MAX_CONVERSATIONS = 4_096
_SHORTEST_SUMMARY = 80
_SHORTEST_PROMPT = 8
_MAX_TEXTS = 64
_MAX_FREE = 32
_MAX_ABANDONED = 64
"""Calls that a client never sent back, per conversation."""
_NO_IDS = AgentIds()
_LOOKED_AT_CALL = 4_000
_KEPT_OF_CALL = 1_000
_KEPT_OF_REPLY = 500
_MAX_REPLIES = 16
"""Replies of a conversation without tools and ids that its client may quote in a side request."""
_MAX_LOOKED_AT = 256 * 1024
"""Characters of each text that are searched for words of other conversations, limited because of the lock."""


class ForeignConversation(Struct):
    """One known conversation."""

    number: int
    group: bytes  # wire format and key: children are searched only within the same group
    tip: bytes  # digest of the whole content, of ``length`` blocks
    ids: AgentIds = AgentIds()
    length: int = 0
    tools: bool = False
    parent: int | None = None
    side: bool = False
    calls: tuple[ToolCall, ...] = ()  # calls of its last reply that still wait for results
    # the longest texts of its newest calls that no conversation works for, including answered calls, by their ids:
    # agents in the background begin late
    free: deque[tuple[str, str]] = field(default_factory=partial(deque, maxlen=_MAX_FREE))
    # the calls that the client has not sent back yet, and whose arguments it may change then: digests of the arguments
    # by the calls' ids
    not_sent_back: dict[str, bytes] = field(default_factory=dict)
    words: tuple[str, ...] = ()  # forms of the text of its last reply, if the reply made no calls
    system: bytes = b""  # digest of its instructions
    replied: deque[str] = field(default_factory=partial(deque, maxlen=_MAX_REPLIES))  # how its last replies begin
    quotes: bool = False  # a side request that quotes its parent, and whose reply may be a summary of it
    open_requests: set[bytes] = field(default_factory=set)  # digests of request bodies in progress or failed
    digests: list[bytes] = field(default_factory=list)  # the conversation's entries in the index
    refused: bytes = b""  # digest of the content of its first request, if that failed


class Placed(Struct, frozen=True):
    """The conversation that a request belongs to."""

    conversation: int
    kind: Kind  # relation of the request to the conversation
    chain: PrefixChain
    new_messages: tuple[ForeignMessage, ...]  # messages that were not known before
    known_blocks: int = 0  # number of blocks that were known before
    retry: bool = False  # the same body is in progress or has failed
    # known calls that the client sends back for the first time, with other arguments than the reply had
    changed: tuple[ToolCall, ...] = ()
    # for a child, the conversation it works for; ``call_id`` is the call, if it is certain. For a side request, the
    # conversation that it belongs to
    parent: int | None = None
    call_id: str = ""
    ids: AgentIds = AgentIds()
    group: bytes = b""


class Conversations:
    """All remembered conversations: at most 4,096; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._by_number: OrderedDict[int, ForeignConversation] = OrderedDict()
        self._index = ChainIndex()
        self._count = 0
        self._lock = RLock()

    def assign(
        self, request: ForeignRequest, chain: PrefixChain, group: bytes, body: bytes, ids: AgentIds = _NO_IDS
    ) -> Placed:
        """Assign a request; ``body`` is the digest of its bytes. The request counts as in progress from here on.

        ``chain`` is the request's chain. ``group`` is the same for all agents of one client.
        """
        with self._lock:
            return replace(self._assign(request, chain, group, body, ids), ids=ids, group=group)

    def _assign(self, request: ForeignRequest, chain: PrefixChain, group: bytes, body: bytes, ids: AgentIds) -> Placed:
        match = self._index.longest(chain)
        conversation = self._by_number.get(match[0]) if match is not None else None
        if match is not None and conversation is not None:
            kind: Kind = (
                "turn" if (match[1], chain.digests[match[1]]) == (conversation.length, conversation.tip) else "edit"
            )
            retry = body in conversation.open_requests
            conversation.open_requests.add(body)
            self._by_number.move_to_end(conversation.number)
            return Placed(
                conversation.number, kind, chain, new_messages(request.messages, match[1], len(chain)), match[1], retry,
                _changed(conversation, request.messages),
            )  # fmt: skip
        return self._new(request, chain, group, body, ids)

    def _new(self, request: ForeignRequest, chain: PrefixChain, group: bytes, body: bytes, ids: AgentIds) -> Placed:
        unanswered = (
            each for each in self._by_number.values() if not each.length and (each.group, each.ids) == (group, ids)
        )
        retried = next((each for each in unanswered if body in each.open_requests or each.refused == chain.tip), None)
        if retried is not None:
            retry = body in retried.open_requests
            retried.open_requests.add(body)
            return Placed(retried.number, "new", chain, request.messages, retry=retry)
        others = [
            other for other in reversed(self._by_number.values()) if other.group == group and _related(other.ids, ids)
        ]
        texts = (part.text for item in request.messages for part in item.parts if isinstance(part, Text))
        opening = squeezed("\n".join(text[:_MAX_LOOKED_AT] for text in islice(texts, _MAX_TEXTS)))
        first = all(item.role != "assistant" for item in request.messages)
        side = first and ids.is_main and (request.wants_json or not request.tools)
        system = hashlib.sha256(request.system.encode("utf-8", "replace")).digest()
        quoted = _quoted(others, opening, system) if side and ids == _NO_IDS else None
        side = side and (quoted is not None or bool(ids.session) or any(other.tools for other in others))
        before = None if side else _continued(others, opening, ids if request.tools else _NO_IDS)
        if before is not None:
            before.open_requests.add(body)
            return Placed(before.number, "compacted", chain, request.messages)
        parent, call_id = _main_of(others) if side else _parent(others, opening, ids)
        parent = quoted.number if quoted is not None else parent
        self._count += 1
        kind: Kind = "side" if side else "new" if parent is None else "child"
        conversation = ForeignConversation(
            self._count, group, chain.digests[0], ids, tools=bool(request.tools), parent=parent, side=side,
            open_requests={body}, system=system, quotes=quoted is not None,
        )  # fmt: skip
        self._by_number[conversation.number] = conversation
        if len(self._by_number) > _MAX_CONVERSATIONS:
            self.forget([next(iter(self._by_number))])
        return Placed(conversation.number, kind, chain, request.messages, parent=parent, call_id=call_id)

    def add_reply(self, placed: Placed, reply: ModelReplied, body: bytes) -> bool:
        """Add a reply. Return whether the conversation had already moved on from the request's starting point."""
        with self._lock:
            return self._record_answer(placed, reply, body)

    def failed(self, placed: Placed) -> None:
        """Note a failed request: its client may send it again with other bytes, such as without its thinking."""
        with self._lock:
            conversation = self._by_number.get(placed.conversation)
            if conversation is not None and not conversation.length:
                conversation.refused = placed.chain.tip

    def _record_answer(self, placed: Placed, reply: ModelReplied, body: bytes) -> bool:
        conversation = self._by_number.get(placed.conversation)
        if conversation is None:
            return False
        elsewhere = placed.kind == "turn" and conversation.tip != placed.chain.digests[placed.known_blocks]
        conversation.open_requests.discard(body)
        added = list(grown(placed.chain.tip, reply_message(reply)))
        unknown = [*placed.chain.digests[placed.known_blocks + 1 :], *added]
        self._index.add(unknown, conversation.number)
        conversation.digests += unknown
        conversation.tip, conversation.length = (added or [placed.chain.tip])[-1], len(placed.chain) + len(added)
        conversation.calls = tuple(part for part in reply.parts if isinstance(part, ToolCall))
        abandoned = list(conversation.not_sent_back.items())[-_MAX_ABANDONED:]
        digests = {call.id: arguments_digest(call) for call in conversation.calls if has_unique_id(call)}
        conversation.not_sent_back = dict(abandoned) | digests
        conversation.free.extend((call.id, text) for call in conversation.calls if (text := _longest_text(call)))
        words = "\n".join(part.text for part in reply.parts if isinstance(part, Text))
        is_side = conversation.side and not conversation.quotes
        conversation.words = () if conversation.calls or is_side else tuple(summary_forms(words))
        if (
            conversation.ids == _NO_IDS
            and not conversation.tools
            and len(reply_start := squeezed(words)) >= _SHORTEST_SUMMARY
        ):
            conversation.replied.append(reply_start[:_KEPT_OF_REPLY])
        return elsewhere

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget conversations; later requests that continue them count as new."""
        with self._lock:
            for number in numbers:
                conversation = self._by_number.pop(number, None)
                if conversation is not None:
                    self._index.remove(conversation.digests, number)


def reply_message(reply: ModelReplied) -> ForeignMessage:
    """Return a reply in the form in which the client will send it back."""
    return message("assistant", reply.parts)


def _changed(conversation: ForeignConversation, messages: Sequence[ForeignMessage]) -> tuple[ToolCall, ...]:
    """Return the calls that a client sends back with changed arguments; each call is compared only once."""
    changed: list[ToolCall] = []
    for sent_back in reversed(messages):  # a turn has them in its last messages
        if not conversation.not_sent_back:
            break
        for part in sent_back.parts:
            digest = conversation.not_sent_back.pop(part.id, None) if isinstance(part, ToolCall) else None
            if digest is not None and isinstance(part, ToolCall) and digest != arguments_digest(part):
                changed.append(part)
    return tuple(changed)


def squeezed(text: str) -> str:
    """Return a text with single blanks, because clients change blanks when they quote."""
    return " ".join(text.split())


def summary_forms(words: str) -> Iterator[str]:
    """Yield the forms in which a client may quote a summary: in full, or without the tags that it asked for."""
    before, _, rest = words.partition("<analysis>")
    bare = before + rest.partition("</analysis>")[2]
    inner = bare.partition("<summary>")[2].rpartition("</summary>")[0]
    for form in dict.fromkeys(map(squeezed, (words, bare, inner))):
        if len(form) >= _SHORTEST_SUMMARY:
            yield form


def _related(other: AgentIds, ids: AgentIds) -> bool:
    """Return whether two requests can belong to one run by their ids."""
    if _NO_IDS in (ids, other):
        return ids == other
    return bool(({other.session, other.agent} & {ids.session, ids.agent, ids.parent}) - {""})


def _continued(others: list[ForeignConversation], opening: str, ids: AgentIds) -> ForeignConversation | None:
    """Return the conversation that a new history continues, because the client compacted it."""
    for conversation in others:
        if not conversation.calls and any(form in opening for form in conversation.words):
            return (
                conversation
                if not conversation.side
                else next((other for other in others if other.number == conversation.parent), None)
            )
    matches = (other for other in others if ids.strand and other.ids == ids and other.tools and other.length)
    return next(matches, None)


def _quoted(others: list[ForeignConversation], opening: str, system: bytes) -> ForeignConversation | None:
    """Return the conversation without tools that a request with other instructions quotes."""
    candidates = (other for other in others if not (other.tools or other.side) and other.system != system)
    return next((other for other in candidates if any(words in opening for words in other.replied)), None)


def _main_of(others: list[ForeignConversation]) -> tuple[int | None, str]:
    """Return the conversation that a side request belongs to, if there is only one."""
    main = [conversation for conversation in others if conversation.tools and conversation.parent is None]
    return (main[-1].number if main and (len(main) == 1 or main[-1].ids.session) else None), ""


def _parent(others: list[ForeignConversation], opening: str, ids: AgentIds) -> tuple[int | None, str]:
    """Return the conversation and the call that a new conversation works for."""
    has_ids = ids != _NO_IDS and not (ids.is_main and ids.session)
    if has_ids:
        conversations = [
            other for other in others if other.ids.strand == (ids.parent or ids.session) and not other.side
        ]
    else:
        conversations = [other for other in others if other.calls]
    guess = conversations[0] if conversations and (has_ids or (ids == _NO_IDS and len(conversations) == 1)) else None
    best, size = None, 0
    for conversation in conversations:
        waiting = {call.id for call in conversation.calls}
        for call_id, text in conversation.free:
            if len(text) > size and (has_ids or call_id in waiting) and text in opening:
                best, size = (conversation, call_id, text), len(text)
    if best is None:
        return (guess.number if guess else None), ""
    best[0].free.remove(best[1:])
    return best[0].number, best[1]


def _longest_text(call: ToolCall) -> str:
    """Return the beginning of a call's longest text; empty if it is too short to be told from others."""
    values = call.arguments.values() if isinstance(call.arguments, dict) else ()
    texts = (squeezed(value[:_LOOKED_AT_CALL]) for value in values if isinstance(value, str))
    longest = max(texts, key=len, default="")[:_KEPT_OF_CALL].strip()
    return longest if len(longest) >= _SHORTEST_PROMPT else ""
