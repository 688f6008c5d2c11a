"""Parses request bodies incrementally, so that a request costs only its new content.

- If a body begins with the bytes of a recent one up to the end of a message, only the rest is parsed. The common
  bytes are compared and not parsed.
- The same message of a conversation is the same object at every turn.
- Memory is bounded in bytes; the oldest entries go first.
- Several threads may read at the same time. The lock covers lookups and updates, never parsing, so that a long body
  does not block others.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable
from threading import Lock

import msgspec
from msgspec import Raw, Struct

from .wire import Body, ForeignMessage

_MAX_RECENT = 32
_MAX_BYTES = 64 << 20
_MAX_MESSAGE_BYTES = 8 << 20
_TRIED = 4
"""Message ends to try one by one, from the last, before bisecting: this finds a cache mark that moved."""

_body = msgspec.json.Decoder(Body)
_items = msgspec.json.Decoder(list[Raw])


class ReadBody(Struct, frozen=True):
    """The fields of a body, and its conversation."""

    fields: Body  # all fields except the messages
    raw: tuple[bytes, ...] = ()  # the bytes of each message
    messages: tuple[ForeignMessage, ...] = ()
    systems: tuple[int, ...] = ()  # indexes of the system messages
    # start and end of the messages in the body, without the brackets; None if they are not a list
    span: tuple[int, int] | None = None
    ends: tuple[int, ...] = ()  # end of each message in the body
    words: str = ""  # the input, if it is a plain string and not a list


class RecentBody(Struct):
    """A recently read body; ``opening`` is its beginning up to the end of the first message."""

    body: bytes
    opening: bytes
    read: ReadBody

    def goes_on(self, body: bytes) -> bool:
        """Return whether a body begins with all messages of this one except the last few."""
        ends = self.read.ends
        return body.startswith(self.body[: ends[max(0, len(ends) - _TRIED)]])


class ReadBodies:
    """Reads the bodies of one wire format."""

    def __init__(self, field: str, read: Callable[[bytes], ForeignMessage]) -> None:
        self._field, self._read_message = field, read
        self._recent: list[RecentBody] = []
        self._messages: dict[bytes, ForeignMessage] = {}
        self._sizes: dict[bytes, int] = {}
        self._bytes = 0
        self._lock = Lock()

    def read(self, body: bytes) -> ReadBody:
        """Read a body; raise ``ValueError`` if it is not a request of this format."""
        try:
            return self._go_on(body) or self._anew(body)
        except RecursionError as error:
            raise ValueError("the body is nested too deep") from error

    def _go_on(self, body: bytes) -> ReadBody | None:
        """Read a body as an extension of a recent one; None if there is no such body."""
        with self._lock:
            bodies = list(self._recent)
        candidates = [entry for entry in bodies if body.startswith(entry.opening)]
        recent = next((entry for entry in candidates if entry.goes_on(body)), candidates[0] if candidates else None)
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
        listing = bytes(getattr(fields, self._field))
        if not listing.startswith(b"[") or small[begin - 1 : begin - 1 + len(listing)] != listing:
            return None
        new = tuple(map(bytes, _items.decode(listing)))
        if bool(new) != (rest[:1] == b","):
            return None
        shift = len(body) - len(small)
        read_body = self._extended(
            fields, ReadBody(fields, old.raw[:alike], old.messages[:alike], old.systems, ends=old.ends[:alike]), new,
            small, begin, shift, (begin, begin - 1 + len(listing) - 1 + shift),
        )  # fmt: skip
        continues = alike >= len(old.ends) - _TRIED  # otherwise it is a different conversation with the same beginning
        self._keep(RecentBody(body, recent.opening, read_body), recent if continues else None)
        return read_body

    def _anew(self, body: bytes) -> ReadBody:
        fields = _body.decode(body)
        listing = bytes(getattr(fields, self._field))
        if listing.startswith(b'"'):
            return ReadBody(fields, words=msgspec.json.decode(listing))
        raw = tuple(map(bytes, _items.decode(listing or b"[]")))
        begin = body.find(listing) + 1
        span = (begin, begin + len(listing) - 2)
        if not raw or bytes(getattr(_body.decode(body[:begin] + body[span[1] :]), self._field)) != b"[]":
            return self._extended(fields, ReadBody(fields), raw, b"", 0, 0, None)
        read_body = self._extended(fields, ReadBody(fields), raw, body, begin, 0, span)
        self._keep(RecentBody(body, body[: read_body.ends[0]], read_body))
        return read_body

    def _extended(
        self, fields: Body, body: ReadBody, new: tuple[bytes, ...], text: bytes, at: int, shift: int,
        span: tuple[int, int] | None,
    ) -> ReadBody:  # fmt: skip
        """Append new messages to known ones. They are at ``at`` in ``text``, and ``shift`` bytes later in the body."""
        messages = tuple(map(self._message, new))
        ends = []
        for raw in new if span is not None else ():
            at = text.find(raw, at) + len(raw)
            ends.append(at + shift)
        count = len(body.raw)
        systems = [position for position in body.systems if position < count]
        systems += [position for position, message in enumerate(messages, count) if message.role == "system"]
        return ReadBody(fields, body.raw + new, body.messages + messages, tuple(systems), span, body.ends + tuple(ends))

    def _keep(self, body: RecentBody, replaced: RecentBody | None = None) -> None:
        bodies: list[RecentBody] = []
        size = 0
        with self._lock:
            for recent in (body, *(other for other in self._recent if other is not replaced)):
                size += len(recent.body)
                if len(bodies) == _MAX_RECENT or (size > _MAX_BYTES and bodies):
                    break
                bodies.append(recent)
            self._recent = bodies

    def _message(self, raw: bytes) -> ForeignMessage:
        key = hashlib.blake2b(raw, digest_size=16).digest()
        cached = self._messages.get(key)
        if cached is not None:
            return cached
        message = self._read_message(raw)
        with self._lock:
            cached = self._messages.setdefault(key, message)  # another thread may have read it in the meantime
            if cached is message:
                self._sizes[key] = len(raw)
                self._bytes += len(raw)
            while self._bytes > _MAX_MESSAGE_BYTES and len(self._messages) > 1:
                oldest = next(iter(self._messages))
                del self._messages[oldest]
                self._bytes -= self._sizes.pop(oldest)
        return cached


def _alike(body: bytes, other: bytes, ends: tuple[int, ...]) -> int:
    """Return how many messages of the other body this one begins with."""
    for count in range(len(ends), max(0, len(ends) - _TRIED), -1):
        if body.startswith(other[: ends[count - 1]]):
            return count
    return bisect_left(ends, True, hi=max(0, len(ends) - _TRIED), key=lambda end: not body.startswith(other[:end]))
