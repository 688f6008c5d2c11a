"""A range of lines out of a file of any size, in bounded memory and time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from .clip import cut, visible

SCANNED_BYTES = 64 * 1024 * 1024  # how far a file is searched for its lines
_CHUNK_BYTES = 256 * 1024
_SAMPLE_BYTES = 8 * 1024  # what decides whether a file is text
_UNDECODABLE = 0.3  # of a text's characters; more is another encoding, or no text
_REPLACEMENT = "\ufffd".encode()
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER_BYTES = 400  # kept free for the line that says what is shown


class LineSpan(Struct, frozen=True):
    """The lines asked for, as far as they were kept."""

    raw: bytes  # their bytes, line ends included
    more: bool  # the range goes on behind ``raw``, whose last line may then be a part of one
    lines: int  # lines of the whole file, or as many as were seen
    counted: bool  # false where the file goes on behind what was seen
    read_bytes: int  # bytes seen, from the file's beginning
    binary: bool  # the file is no UTF-8 text, as far as it was kept


def scan(fd: int, start: int, end: int | None, keep_bytes: int) -> LineSpan:
    """As ``scan_with``, from an open file."""
    return scan_with(partial(os.read, fd), start, end, keep_bytes)


def scan_with(read: Callable[[int], bytes], start: int, end: int | None, keep_bytes: int) -> LineSpan:
    """Read a file from its beginning, keep at most ``keep_bytes`` of lines ``start`` to ``end``, count the others.

    Nothing is believed of the file's size: it may be sparse, or grow while it is read.
    """
    sample = b""
    kept = bytearray()
    newlines = read_bytes = 0
    last = b""
    ended = False
    while read_bytes < SCANNED_BYTES and not (ended := not (chunk := read(_CHUNK_BYTES))):
        sample = sample or chunk[:_SAMPLE_BYTES]
        if b"\0" in sample:
            return LineSpan(b"", more=False, lines=0, counted=False, read_bytes=len(chunk), binary=True)
        found = chunk.count(b"\n")
        if newlines + found >= start - 1 and len(kept) <= keep_bytes and (end is None or newlines < end):
            kept += chunk[_after_newline(chunk, start - 1 - newlines) :][: keep_bytes + 1 - len(kept)]
        newlines += found
        read_bytes += len(chunk)
        last = chunk[-1:]
    lines = newlines + (last not in {b"", b"\n"})
    wanted = len(kept) if end is None else _after_newline(kept, end - start + 1)
    raw = bytes(kept[: min(wanted, keep_bytes)])
    return LineSpan(
        raw=raw,
        more=wanted > keep_bytes or not (ended or (end is not None and newlines >= end)),
        lines=lines,
        counted=ended,
        read_bytes=read_bytes,
        binary=_no_text(sample) or _no_text(raw),
    )


def _after_newline(chunk: bytes | bytearray, count: int) -> int:
    """Where the text behind the count-th newline begins; the end where there are fewer, 0 for a count below 1."""
    at = 0
    for _ in range(count):
        found = chunk.find(b"\n", at)
        if found < 0:
            return len(chunk)
        at = found + 1
    return at


def _no_text(raw: bytes) -> bool:
    text = raw.decode("utf-8", "replace")
    undecodable = text.count("\ufffd") - raw.count(_REPLACEMENT)
    return b"\0" in raw or undecodable > max(1, _UNDECODABLE * len(text))


def shown_lines(
    span: LineSpan, start: int, *, ranged: bool, shown_bytes: int, scrub: Callable[[str], str] = str
) -> str:
    """The span as text of at most ``shown_bytes`` bytes, whole lines from its beginning.

    A whole small file of plain text stands alone. Else a first line in brackets says which lines of how many these
    are, how to read on, and what is not shown as it stands in the file.
    """
    text, notes = _text_of(span)
    if not (ranged or notes or span.more) and len(text.encode()) <= shown_bytes:
        return text
    lines = _LINES.findall(text)
    room = shown_bytes - min(_HEADER_BYTES, shown_bytes // 2)
    fitting, used = 0, 0
    for line in lines[: len(lines) - span.more]:
        used += len(line.encode())
        if used > room:
            break
        fitting += 1
    whole = fitting == len(lines) and not span.more
    total = str(span.lines) if span.counted else f"more than {span.lines}"
    if fitting == 0:
        said = [f"line {start} of {total} is too long: this is its beginning; run_command can cut out a part of it"]
        body, after = cut(scrub(lines[0]), room), start + 1
    else:
        said = [f"lines {start}-{start + fitting - 1} of {total}"]
        body, after = "".join(lines[:fitting]), start + fitting
    if not whole and (after <= span.lines or not span.counted):
        said.append(f"read on with start_line={after}")
    return cut(f"[{'; '.join(said + notes)}]\n{body}", shown_bytes)


def _text_of(span: LineSpan) -> tuple[str, list[str]]:
    """The span's text made visible, and what differs from the file."""
    raw, notes = span.raw, []
    ends = raw.count(b"\r\n")
    if ends and ends == raw.count(b"\r") == raw.count(b"\n"):
        raw = raw.replace(b"\r\n", b"\n")
        notes.append("lines end in CRLF")
    text = raw.decode("utf-8", "replace")
    if text.count("\ufffd") > raw.count(_REPLACEMENT) + span.more:
        notes.append("bytes that are not UTF-8 are shown as U+FFFD")
    shown = visible(text)
    if shown != text:
        notes.append("control characters are shown escaped")
    return shown, notes
