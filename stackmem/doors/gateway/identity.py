"""Identifies conversations by their content: a chain of digests, matched by its longest known prefix.

- The chain starts from the wire format, the key and the ids that known agents send. Requests that differ there never
  share a conversation.
- A known prefix counts only if it includes a reply, because agents of one kind all begin with the same words.
- The index keeps the newest digests; a conversation that was evicted counts as new when it returns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock

from msgspec import Struct

from stackmem.doors.gateway.wires.wire import ForeignMessage, Role, identity_of

_MAX_RECENT = 64
_TRIED = 4
MAX_KNOWN = 500_000
"""Maximum number of digests in the index, at about 50 bytes each."""


class PrefixChain(Struct, frozen=True):
    """Digests of all prefixes of a conversation."""

    digests: tuple[bytes, ...]  # the seed, then one digest per block; the last covers everything
    replied: int  # number of blocks up to and including the first reply; 0 without a reply

    @property
    def tip(self) -> bytes:
        return self.digests[-1]

    def __len__(self) -> int:
        return len(self.digests) - 1


class AgentIds(Struct, frozen=True):
    """The ids that an agent sends with a request; each is empty if it sends none."""

    session: str = ""  # all requests of a session belong to one run
    agent: str = ""  # the sub-agent or thread; empty or the session's id for the main one
    parent: str = ""  # the agent, thread or session that started it

    @property
    def strand(self) -> str:
        return self.agent or self.session

    @property
    def is_main(self) -> bool:
        return self.agent in ("", self.session) and not self.parent


_ID_HEADERS = {
    "session": ("x-claude-code-session-id", "session-id", "session_id"),
    "agent": ("x-claude-code-agent-id", "thread-id", "thread_id"),
    "parent": ("x-claude-code-parent-agent-id", "x-codex-parent-thread-id"),
}
_METADATA = "x-codex-turn-metadata"
_METADATA_FIELDS = {"session": "session_id", "agent": "thread_id", "parent": "parent_thread_id"}
_MAX_ID_CHARS = 200
_MAX_METADATA_CHARS = 16_384


def agent_ids(headers: Mapping[str, str]) -> AgentIds:
    """Return the ids in the headers of Claude Code, Codex and opencode."""
    ids = {field: next((headers[name] for name in names if name in headers), "")
             for field, names in _ID_HEADERS.items()}  # fmt: skip
    if "x-session-affinity" in headers and "x-session-id" in headers and not ids["session"]:  # opencode
        ids["session"], ids["parent"] = headers["x-session-id"], headers.get("x-parent-session-id", "")
    if _METADATA in headers:
        for field, value in _metadata(headers[_METADATA]).items():
            ids[field] = ids[field] or value
    return AgentIds(**{field: value.strip()[:_MAX_ID_CHARS] for field, value in ids.items()})


def _metadata(text: str) -> dict[str, str]:
    try:
        # A header from any client: longer ones are ignored and not parsed.
        value = json.loads(text) if len(text) <= _MAX_METADATA_CHARS else None
    except (ValueError, RecursionError):
        return {}
    fields = value if isinstance(value, dict) else {}
    values = {field: fields.get(name) for field, name in _METADATA_FIELDS.items()}
    return {field: item for field, item in values.items() if isinstance(item, str)}


def seed(wire: str, secret: str, agent: str) -> bytes:
    """Return the start of a chain. Only a digest of the key is kept, and only in memory."""
    # Accounts must not share a conversation, even if they send the same messages.
    fields = (wire, hashlib.sha256(secret.encode()).hexdigest(), agent)
    return hashlib.blake2b("\0".join(fields).encode(), digest_size=16).digest()


class Chains:
    """Computes chains of requests, reusing the digests of a recent request with the same beginning."""

    def __init__(self) -> None:
        self._recent: dict[tuple[bytes, int], tuple[tuple[ForeignMessage, ...], PrefixChain, list[int]]] = {}
        self._lock = Lock()

    def chain(self, start: bytes, messages: tuple[ForeignMessage, ...]) -> PrefixChain:
        """Return the chain of a request's messages. A message must be the same object at every turn."""
        # The identity of an object is enough here, because the entry itself keeps the message alive.
        key = (start, id(messages[0]) if messages else 0)
        with self._lock:
            old, previous, ends = self._recent.pop(key, ((), PrefixChain((start,), 0), [0]))
        alike = shared(old, messages)
        digests, replied = (
            list(previous.digests[: ends[alike] + 1]),
            previous.replied if previous.replied <= ends[alike] else 0,
        )
        ends = ends[: alike + 1]
        for message in messages[alike:]:
            for block in message.identity:
                digests.append(link(digests[-1], message.role, block))
                if message.role == "assistant" and not replied:
                    replied = len(digests) - 1
            ends.append(len(digests) - 1)
        result = PrefixChain(tuple(digests), replied)
        with self._lock:
            self._recent[key] = messages, result, ends
            if len(self._recent) > _MAX_RECENT:
                del self._recent[next(iter(self._recent))]
        return result


def shared(old: Sequence[object], new: Sequence[object]) -> int:
    """Return the length of the common prefix; identical objects compare quickly."""
    most = min(len(old), len(new))
    for count in range(most, max(most - _TRIED, -1), -1):
        # From the end, because a turn usually appends: the first comparisons succeed.
        if old[:count] == new[:count]:  # tuple comparison checks object identity first
            return count
    return next((position for position in range(most) if old[position] != new[position]), most)


def chain(start: bytes, messages: Sequence[ForeignMessage]) -> PrefixChain:
    """Return the chain of a request's messages."""
    return Chains().chain(start, tuple(messages))


def grown(tip: bytes, message: ForeignMessage) -> Iterator[bytes]:
    """Yield the digests that a reply appends to a tip."""
    for block in message.identity:
        tip = link(tip, message.role, block)
        yield tip


def link(tip: bytes, role: Role, block: bytes) -> bytes:
    return hashlib.blake2b(tip + role.encode() + block, digest_size=16).digest()


def new_messages(messages: Sequence[ForeignMessage], known_blocks: int, total: int) -> tuple[ForeignMessage, ...]:
    """Return the messages after the first ``known_blocks`` of ``total`` blocks, the first without its known parts."""
    if known_blocks == 0:
        return tuple(messages)
    number, end = len(messages), total
    while number > 0 and end - len(messages[number - 1].identity) >= known_blocks:
        number -= 1
        end -= len(messages[number].identity)
    if number == 0 or end <= known_blocks:
        return tuple(messages[number:])
    first = messages[number - 1]
    skipped = known_blocks - (end - len(first.identity))
    counted = [part for part in first.parts if identity_of(part)]
    rest = ForeignMessage(first.role, tuple(counted[skipped:]), first.identity[skipped:])
    return (rest, *messages[number:])


def beginning(messages: Sequence[ForeignMessage], blocks: int) -> tuple[ForeignMessage, ...]:
    """Return the messages with the first ``blocks`` blocks: those that ``new_messages`` leaves out."""
    messages_found: list[ForeignMessage] = []
    for message in messages:
        if blocks <= 0:
            break
        if len(message.identity) > blocks:
            parts = [part for part in message.parts if identity_of(part)][:blocks]
            messages_found.append(ForeignMessage(message.role, tuple(parts), message.identity[:blocks]))
            break
        messages_found.append(message)
        blocks -= len(message.identity)
    return tuple(messages_found)


def beginning_digest(messages: Sequence[ForeignMessage], blocks: int) -> str:
    """Return a digest of the first ``blocks`` blocks, without the key and the ids of the client."""
    return chain(b"", beginning(messages, blocks)).tip.hex()


class ChainIndex:
    """Maps known digests to conversations."""

    def __init__(self, most: int = MAX_KNOWN) -> None:
        self._numbers: dict[bytes, int] = {}
        self._most = most

    def add(self, digests: Sequence[bytes], conversation: int) -> None:
        for digest in digests:
            # Removed first, so that it moves to the end and is the last one to be forgotten.
            self._numbers.pop(digest, None)
            self._numbers[digest] = conversation
        while len(self._numbers) > self._most:
            del self._numbers[next(iter(self._numbers))]

    def remove(self, digests: Sequence[bytes], conversation: int) -> None:
        """Remove the digests that still belong to the conversation."""
        for digest in digests:
            if self._numbers.get(digest) == conversation:
                del self._numbers[digest]

    def longest(self, chain: PrefixChain) -> tuple[int, int] | None:
        """Return the conversation with the longest prefix of a chain, and the prefix's length in blocks.

        Return None if no match reaches a reply.
        """
        # At least up to the first reply: unrelated conversations often begin with the same prompt.
        for length in range(len(chain), max(chain.replied, 1) - 1, -1):
            conversation = self._numbers.get(chain.digests[length])
            if conversation is not None and chain.replied:
                return conversation, length
        return None
