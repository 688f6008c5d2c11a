"""Parses server-sent events from response bytes, with a deadline and a size limit."""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator

_MAX_BYTES = 64 * 1024 * 1024
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BEFORE = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may precede the first event: a byte order mark and blanks."""
_NO_STREAM = {b"{", b"[", b"<"}
"""First bytes of a body that is JSON or a web page."""


def server_events(
    chunks: Iterable[bytes],
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
    most_bytes: int = _MAX_BYTES,
) -> Iterator[str]:
    """Yield the ``data`` of each event, ignoring comments, names and ids; a body that is not a stream is one text.

    An event without its closing blank line is dropped, because the stream broke there. ``deadline`` is the time on
    ``clock`` after which a trickling stream is abandoned. Raise TimeoutError if the deadline passed, and ValueError if
    the stream is longer than ``most_bytes``.
    """
    pending = bytearray()
    is_stream: bool | None = None
    total = 0
    scanned = 0
    for chunk in chunks:
        if clock() > deadline:
            raise TimeoutError("the reply took longer than its time limit")
        total += len(chunk)
        if total > most_bytes:
            raise ValueError(f"the reply is longer than {most_bytes // 1024 // 1024} MiB")
        pending += chunk
        if is_stream is None:
            pending = pending.lstrip(_BEFORE)
            is_stream = bytes(pending[:1]) not in _NO_STREAM if pending else None
        if is_stream is False:
            continue
        while (blank := _BLANK_LINE.search(pending, scanned)) is not None:
            event = bytes(pending[: blank.start()])
            del pending[: blank.end()]
            scanned = 0
            if (text := _text(event)) is not None:
                yield text
        scanned = max(0, len(pending) - 3)
    if is_stream is False:
        yield pending.decode("utf-8", "replace")


def plain_events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return a stream as Google's SDK reads it: only ``data: `` lines, one for each event.

    Other servers send comments, names of events, other line ends and ``[DONE]``, which the SDK takes for JSON.
    """
    pieces = iter(chunks)
    first = next((piece for piece in pieces if piece.strip(_BEFORE)), b"")
    if first.strip(_BEFORE)[:1] in _NO_STREAM:
        yield from _listed(b"".join((first, *pieces))) if first.strip(_BEFORE)[:1] == b"[" else (first, *pieces)
        return
    is_stream = False
    for text in server_events(itertools.chain((first,), pieces, (b"\n\n",)), math.inf):
        is_stream = True
        if text.strip() != "[DONE]":
            yield f"data: {text}\n\n".replace("\n", " ", text.count("\n")).encode()
    if not is_stream:
        yield first  # the SDK reports what it is


def _listed(body: bytes) -> Iterator[bytes]:
    """Return a list of chunks as events; anything else unchanged."""
    try:
        chunks = json.loads(body)
    except (ValueError, RecursionError):
        chunks = None
    if isinstance(chunks, list) and all(isinstance(chunk, dict) for chunk in chunks):
        yield from (f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks)
    else:
        yield body


def _text(event: bytes) -> str | None:
    """Return the data of an event; old llama.cpp servers send failures as ``error:``."""
    fields = [line.partition(b":") for line in _LINE_END.split(event)]
    lines = [value.removeprefix(b" ").decode("utf-8", "replace") for name, _, value in fields if name == b"data"]
    if lines:
        return "\n".join(lines)
    failures = (value.decode("utf-8", "replace") for name, _, value in fields if name == b"error")
    return next((f'{{"error": {failure}}}' for failure in failures), None)
