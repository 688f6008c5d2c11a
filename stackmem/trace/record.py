"""One line of a trace, and the chain that binds it to all lines before it.

A line is ``{"seq":N,"at":SECONDS,"event":{"type":…},"digest":"…"}`` and a newline. Its digest is SHA-256 over the
previous line's digest (in hex; empty before the first) and the line's own bytes without the digest field.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError
from stackmem.core.facts import Event, RunForked

DIGEST_MARK = b',"digest":"'
_TAIL_BYTES = len(DIGEST_MARK) + 64 + len(b'"}')


class Record(Struct, frozen=True):
    """An event with its number and time in a run.

    Attributes:
        seq: From 1, without gaps.
        at: Seconds since 1970, UTC, within the years 1 to 9999. The rules never read it.
    """

    seq: int
    at: Annotated[float, msgspec.Meta(ge=-62_135_596_800, le=253_402_300_799)]
    event: Event


WAY_OUT = "; stackmem trace recover RUN saves the lines before it"
"""Hint after a message about an unreadable line."""

_decoder = msgspec.json.Decoder(Record)


def read_line(line: bytes, previous: str, number: int) -> tuple[Record, str]:
    """Return the record of a line without its newline, and its digest.

    Raise TraceError if the line is not a record, or does not follow from the line before it. The message contains
    ``number``.
    """
    body, tail = line[:-_TAIL_BYTES] + b"}", line[-_TAIL_BYTES:]
    digest = hashlib.sha256(previous.encode() + body).hexdigest()
    if tail != DIGEST_MARK + digest.encode() + b'"}':
        if not tail.startswith(DIGEST_MARK) or not tail.endswith(b'"}'):
            raise TraceError(
                f"line {number} is not a record of a trace, because it does not end with a digest{WAY_OUT}"
            )
        raise TraceError(
            f"line {number} is broken: its digest does not match its bytes and the line before it{WAY_OUT}"
        )
    try:
        record = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"line {number} is complete, but this version cannot read its record: {error}") from error
    if record.seq != number:
        raise TraceError(
            f"line {number} is record {record.seq}; lines are missing, duplicated or out of order{WAY_OUT}"
        )
    return record, digest


def is_followed(line: bytes, previous: str, number: int) -> bool:
    """Return whether a complete record is followed by something other than a newline, which a crash cannot cause.

    Zero bytes are possible after a power failure, if the file's length reached the disk and its content did not.
    """
    end = line.rfind(DIGEST_MARK) + _TAIL_BYTES
    if not _TAIL_BYTES <= end < len(line) or not line[end:].strip(b"\0"):
        return False
    try:
        read_line(line[:end], previous, number)
    except TraceError:
        return False
    return True


def origin(line: bytes) -> RunForked | None:
    """Return the fork in a file's first line. None if the file does not begin with a fork, or not with a record at
    all.
    """
    try:
        event = _decoder.decode(line.rstrip(b"\n")[:-_TAIL_BYTES] + b"}").event
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event if isinstance(event, RunForked) else None
