"""Bodies read so that a request costs what is new in it, though it brings the whole conversation.

Rule 1: of a body that begins with the bytes of a recent one, up to the end of a message, only what follows is read.
    The bytes before are compared, which is all that is done with them.
Rule 2: the same message of a conversation is the same object at every turn.
Rule 3: what is kept is bounded by its bytes; the oldest goes first.
Rule 4: several threads may read at once. The lock is held for looking up and keeping, never while a body is read, so
    that a long body does not keep others waiting.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable
from threading import Lock

import msgspec
from msgspec import Raw, Struct

from .wire import Body, ForeignMessage

_MOST_RECENT = 32
_MOST_BYTES = 64 << 20
_MOST_MESSAGE_BYTES = 8 << 20
_TRIED = 4
"""So many ends are tried from the last one back before the search halves: a mark that moves is found so."""

_body = msgspec.json.Decoder(Body)
_items = msgspec.json.Decoder(list[Raw])


class ReadBody(Struct, frozen=True):
    """A body's fields, and its conversation."""

    fields: Body  # the fields beside the messages
    raw: tuple[bytes, ...] = ()  # the bytes of each message
    messages: tuple[ForeignMessage, ...] = ()
    systems: tuple[int, ...] = ()  # places of the system messages
    # where the messages begin and end in the body, without the brackets; None where they are no list
    span: tuple[int, int] | None = None
    ends: tuple[int, ...] = ()  # where each message ends in the body
    words: str = ""  # what is said, where it is a text instead of a list


class RecentBody(Struct):
    """A body that was read; ``opening`` is what it holds up to the end of its first message."""

    body: bytes
    opening: bytes
    read: ReadBody

    def goes_on(self, body: bytes) -> bool:
        """Whether the body begins with all messages of this one but the last few."""
        ends = self.read.ends
        return body.startswith(self.body[: ends[max(0, len(ends) - _TRIED)]])


class ReadBodies:
    """The bodies of one wire format."""

    def __init__(self, field: str, read: Callable[[bytes], ForeignMessage]) -> None:
        self._field, self._read_message = field, read
        self._recent: list[RecentBody] = []
        self._known: dict[bytes, ForeignMessage] = {}
        self._sizes: dict[bytes, int] = {}
        self._bytes = 0
        self._lock = Lock()

    def read(self, body: bytes) -> ReadBody:
        """Raises ``ValueError`` where the body is no request of this format."""
        try:
            return self._go_on(body) or self._anew(body)
        except RecursionError as error:
            raise ValueError("the body is nested too deep") from error

    def _go_on(self, body: bytes) -> ReadBody | None:
        """The body by a recent one that it begins with; None where there is none."""
        with self._lock:
            known = list(self._recent)
        begun = [one for one in known if body.startswith(one.opening)]
        recent = next((one for one in begun if one.goes_on(body)), begun[0] if begun else None)
        if recent is None or recent.read.span is None:
            return None
        old, begin = recent.read, recent.read.span[0]
        alike = _alike(body, recent.body, old.ends)
        if alike == 0:
            return None
        end = old.ends[alike - 1]
        rest = body[end:].lstrip(b" \t\r\n")
        if rest[:1] not in (b",", b"]"):
            return None
        small = body[:begin] + (rest[1:] if rest[:1] == b"," else rest)
        fields = _body.decode(small)
        given = bytes(getattr(fields, self._field))
        if not given.startswith(b"[") or small[begin - 1 : begin - 1 + len(given)] != given:
            return None
        new = tuple(map(bytes, _items.decode(given)))
        if bool(new) != (rest[:1] == b","):
            return None
        shift = len(body) - len(small)
        made = self._made(
            fields, ReadBody(fields, old.raw[:alike], old.messages[:alike], old.systems, ends=old.ends[:alike]), new,
            small, begin, shift, (begin, begin - 1 + len(given) - 1 + shift),
        )  # fmt: skip
        same = alike >= len(old.ends) - _TRIED  # else it is another conversation that began so
        self._keep(RecentBody(body, recent.opening, made), recent if same else None)
        return made

    def _anew(self, body: bytes) -> ReadBody:
        fields = _body.decode(body)
        given = bytes(getattr(fields, self._field))
        if given.startswith(b'"'):
            return ReadBody(fields, words=msgspec.json.decode(given))
        raw = tuple(map(bytes, _items.decode(given or b"[]")))
        begin = body.find(given) + 1
        span = (begin, begin + len(given) - 2)
        if not raw or bytes(getattr(_body.decode(body[:begin] + body[span[1] :]), self._field)) != b"[]":
            return self._made(fields, ReadBody(fields), raw, b"", 0, 0, None)
        made = self._made(fields, ReadBody(fields), raw, body, begin, 0, span)
        self._keep(RecentBody(body, body[: made.ends[0]], made))
        return made

    def _made(
        self, fields: Body, known: ReadBody, new: tuple[bytes, ...], text: bytes, at: int, shift: int,
        span: tuple[int, int] | None,
    ) -> ReadBody:  # fmt: skip
        """What is known, and new messages behind it: in ``text`` from ``at`` on, ``shift`` further on in the body."""
        messages = tuple(map(self._message, new))
        ends = []
        for raw in new if span is not None else ():
            at = text.find(raw, at) + len(raw)
            ends.append(at + shift)
        count = len(known.raw)
        systems = [place for place in known.systems if place < count]
        systems += [place for place, one in enumerate(messages, count) if one.role == "system"]
        return ReadBody(
            fields, known.raw + new, known.messages + messages, tuple(systems), span, known.ends + tuple(ends)
        )

    def _keep(self, one: RecentBody, replaced: RecentBody | None = None) -> None:
        kept: list[RecentBody] = []
        size = 0
        with self._lock:
            for recent in (one, *(other for other in self._recent if other is not replaced)):
                size += len(recent.body)
                if len(kept) == _MOST_RECENT or (size > _MOST_BYTES and kept):
                    break
                kept.append(recent)
            self._recent = kept

    def _message(self, raw: bytes) -> ForeignMessage:
        key = hashlib.blake2b(raw, digest_size=16).digest()
        known = self._known.get(key)
        if known is not None:
            return known
        made = self._read_message(raw)
        with self._lock:
            known = self._known.setdefault(key, made)  # another thread may have read it meanwhile
            if known is made:
                self._sizes[key] = len(raw)
                self._bytes += len(raw)
            while self._bytes > _MOST_MESSAGE_BYTES and len(self._known) > 1:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._bytes -= self._sizes.pop(oldest)
        return known


def _alike(body: bytes, other: bytes, ends: tuple[int, ...]) -> int:
    """How many messages of the other body this one begins with."""
    for count in range(len(ends), max(0, len(ends) - _TRIED), -1):
        if body.startswith(other[: ends[count - 1]]):
            return count
    return bisect_left(ends, True, hi=max(0, len(ends) - _TRIED), key=lambda end: not body.startswith(other[:end]))
