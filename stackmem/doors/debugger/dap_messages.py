"""Reads and writes Debug Adapter Protocol messages: a header with the length, then JSON."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

MAX_BYTES = 10 * 1024 * 1024
_MAX_HEADER_BYTES = 1_000


class BadMessage(Exception):  # noqa: N818 - the peer's mistake
    """Raised for malformed input; the next message can still be read."""


def read_message(stream: BinaryIO) -> dict[str, Any] | None:
    """Return the next message, or None at the end of the stream."""
    length = _read_header(stream)
    if length is None:
        return None
    if length > MAX_BYTES:
        while length > 0 and (part := stream.read(min(length, MAX_BYTES))):
            length -= len(part)
        raise BadMessage(f"a message is longer than {MAX_BYTES:,} bytes; send shorter messages")
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMessage("the body of a message is not JSON") from error
    if not isinstance(message, dict):
        raise BadMessage("the body of a message is not an object")
    return message


def _read_header(stream: BinaryIO) -> int | None:
    """Return the length of the following message, or None at the end of the stream."""
    length, fault = None, ""
    while line := stream.readline(_MAX_HEADER_BYTES):
        text = line.strip()
        if not text and length is not None:
            return length
        if not text and fault:
            raise BadMessage(fault)
        name, _, value = text.partition(b":")
        number = value.strip()
        if name.lower() == b"content-length":
            if number.isdigit() and len(number) < 20:
                length = int(number)
            else:
                length, fault = None, f"Content-Length {number[:40]!r} is not a number of bytes"
        elif text and not value:
            fault = f"{text[:40]!r} is not a header; send Content-Length"
    return None


def write_message(stream: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message, ensure_ascii=True, default=str).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()
