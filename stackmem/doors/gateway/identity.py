"""Conversations told apart by what they hold: a chain of digests, and the longest part of it that is known.

Rule 1: the chain begins with the wire format, the key and, where a client sends it, the agent's id: what differs there
    is never one conversation, and nothing else that a client sends makes two one.
Rule 2: a part counts as known only where it reaches a reply: agents of one kind all begin with the same words.
Rule 3: of what is known the newest stays; what is pushed out is taken for new when it comes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from threading import Lock

from msgspec import Struct

from stackmem.doors.gateway.wires.wire import ForeignMessage, Role, identity_of

_MOST_RECENT = 64
_TRIED = 4
MOST_KNOWN = 500_000
"""Digests that the index holds: about 50 bytes each."""


class PrefixChain(Struct, frozen=True):
    """The digests of a conversation's beginnings."""

    digests: tuple[bytes, ...]  # after the seed, one for each block; the last stands for all
    replied: int  # so many blocks reach the first reply, that one included; 0 where there is none

    @property
    def tip(self) -> bytes:
        return self.digests[-1]

    def __len__(self) -> int:
        return len(self.digests) - 1


def seed(wire: str, secret: str, agent: str) -> bytes:
    """Where a chain begins; of the key nothing but a digest is kept, in memory alone."""
    fields = (wire, hashlib.sha256(secret.encode()).hexdigest(), agent)
    return hashlib.blake2b("\0".join(fields).encode(), digest_size=16).digest()


class Chains:
    """The chains of requests; where one begins with the messages of a recent one, its digests are taken over."""

    def __init__(self) -> None:
        self._recent: dict[tuple[bytes, int], tuple[tuple[ForeignMessage, ...], PrefixChain, list[int]]] = {}
        self._lock = Lock()

    def chain(self, start: bytes, messages: tuple[ForeignMessage, ...]) -> PrefixChain:
        """The chain of a request's messages; the same message is the same object at every turn."""
        key = (start, id(messages[0]) if messages else 0)
        with self._lock:
            old, known, ends = self._recent.pop(key, ((), PrefixChain((start,), 0), [0]))
        alike = shared(old, messages)
        digests, replied = list(known.digests[: ends[alike] + 1]), known.replied if known.replied <= ends[alike] else 0
        ends = ends[: alike + 1]
        for one in messages[alike:]:
            for block in one.identity:
                digests.append(link(digests[-1], one.role, block))
                if one.role == "assistant" and not replied:
                    replied = len(digests) - 1
            ends.append(len(digests) - 1)
        found = PrefixChain(tuple(digests), replied)
        with self._lock:
            self._recent[key] = messages, found, ends
            if len(self._recent) > _MOST_RECENT:
                del self._recent[next(iter(self._recent))]
        return found


def shared(old: Sequence[object], new: Sequence[object]) -> int:
    """How many items two sequences begin with alike; the same objects are compared at once."""
    most = min(len(old), len(new))
    for count in range(most, max(most - _TRIED, -1), -1):
        if old[:count] == new[:count]:  # a tuple looks first whether they are the same objects
            return count
    return next((place for place in range(most) if old[place] != new[place]), most)


def chain(start: bytes, messages: Sequence[ForeignMessage]) -> PrefixChain:
    """The chain of a request's messages."""
    return Chains().chain(start, tuple(messages))


def grown(tip: bytes, told: ForeignMessage) -> Iterator[bytes]:
    """The digests that a reply adds behind a tip."""
    for block in told.identity:
        tip = link(tip, told.role, block)
        yield tip


def link(tip: bytes, role: Role, block: bytes) -> bytes:
    return hashlib.blake2b(tip + role.encode() + block, digest_size=16).digest()


def unseen(messages: Sequence[ForeignMessage], known: int, total: int) -> tuple[ForeignMessage, ...]:
    """The messages behind the first ``known`` of ``total`` blocks; one known in part comes without that part."""
    if known == 0:
        return tuple(messages)
    number, end = len(messages), total
    while number > 0 and end - len(messages[number - 1].identity) >= known:
        number -= 1
        end -= len(messages[number].identity)
    if number == 0 or end <= known:
        return tuple(messages[number:])
    first = messages[number - 1]
    skipped = known - (end - len(first.identity))
    counted = [part for part in first.parts if identity_of(part)]
    rest = ForeignMessage(first.role, tuple(counted[skipped:]), first.identity[skipped:])
    return (rest, *messages[number:])


class ChainIndex:
    """Which conversation each known chain belongs to."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._known: dict[bytes, int] = {}
        self._most = most

    def add(self, digests: Sequence[bytes], conversation: int) -> None:
        for digest in digests:
            self._known.pop(digest, None)
            self._known[digest] = conversation
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def remove(self, digests: Sequence[bytes], conversation: int) -> None:
        """Forget those that still belong to a conversation."""
        for digest in digests:
            if self._known.get(digest) == conversation:
                del self._known[digest]

    def longest(self, found: PrefixChain) -> tuple[int, int] | None:
        """The conversation that holds most of a chain, and how many blocks of it; None where none holds a reply."""
        for length in range(len(found), max(found.replied, 1) - 1, -1):
            conversation = self._known.get(found.digests[length])
            if conversation is not None and found.replied:
                return conversation, length
        return None
