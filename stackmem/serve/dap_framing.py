"""Messages of the Debug Adapter Protocol on a pair of byte streams: a header with the length, then JSON."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

MOST_BYTES = 10 * 1024 * 1024
_MOST_HEADER_BYTES = 1_000


class BadMessage(Exception):  # noqa: N818 - the peer's mistake
    """What came is no message; the streams are of no more use."""


def read_message(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None at the end of the stream.

    Raises:
        BadMessage: What came is none.

    """
    length = None
    while True:
        line = stream.readline(_MOST_HEADER_BYTES)
        if not line:
            return None
        text = line.strip()
        if not text and length is not None:
            break
        name, _, value = text.partition(b":")
        if name.lower() == b"content-length":
            if not value.strip().isdigit() or int(value) > MOST_BYTES:
                raise BadMessage(f"a length of {value.strip()[:40]!r} is none that is read")
            length = int(value)
        elif text and not value:
            raise BadMessage(f"{text[:40]!r} is no header")
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMessage("the body is no JSON") from error
    if not isinstance(found, dict):
        raise BadMessage("the body is no object")
    return found


def write_message(stream: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message, ensure_ascii=True, default=str).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()
