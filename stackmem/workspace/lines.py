"""Reads a range of lines from a file of any size, in bounded memory and time."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from .clip import cut, visible

SCANNED_BYTES = 64 * 1024 * 1024  # maximum number of bytes scanned for lines
_CHUNK_BYTES = 256 * 1024
_SAMPLE_BYTES = 8 * 1024  # size of the sample that decides whether a file is text
_UNDECODABLE = 0.3  # maximum share of undecodable characters; above it, the file is not UTF-8 text
_REPLACEMENT = "\ufffd".encode()
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER_BYTES = 400  # reserved for the header line


class LineSpan(Struct, frozen=True):
    """The requested lines, as far as they were kept."""

    raw: bytes  # their bytes, including line endings
    more: bool  # the range continues after ``raw``, whose last line may be incomplete
    lines: int  # lines in the whole file, or as many as were seen
    counted: bool  # False if the file continues after the part that was scanned
    read_bytes: int  # bytes scanned from the start of the file
    binary: bool  # the scanned part is not UTF-8 text


def scan(read: Callable[[int], bytes], start: int, end: int | None, keep_bytes: int) -> LineSpan:
    """Read a file from its start, keep at most ``keep_bytes`` of lines ``start`` to ``end``, and count all lines.

    The file's reported size is not used, because the file may be sparse or grow while it is read.
    """
    sample = b""
    content = bytearray()
    newlines = read_bytes = 0
    last = b""
    ended = False
    while read_bytes < SCANNED_BYTES and not (ended := not (chunk := read(_CHUNK_BYTES))):
        sample = sample or chunk[:_SAMPLE_BYTES]
        if b"\0" in sample:
            return LineSpan(b"", more=False, lines=0, counted=False, read_bytes=len(chunk), binary=True)
        count = chunk.count(b"\n")
        if newlines + count >= start - 1 and len(content) <= keep_bytes and (end is None or newlines < end):
            content += chunk[_after_newline(chunk, start - 1 - newlines) :][: keep_bytes + 1 - len(content)]
        newlines += count
        read_bytes += len(chunk)
        last = chunk[-1:]
    lines = newlines + (last not in {b"", b"\n"})
    length = len(content) if end is None else _after_newline(content, end - start + 1)
    raw = bytes(content[: min(length, keep_bytes)])
    return LineSpan(
        raw=raw,
        more=length > keep_bytes or not (ended or (end is not None and newlines >= end)),
        lines=lines,
        counted=ended,
        read_bytes=read_bytes,
        binary=_no_text(sample) or _no_text(raw),
    )


def _after_newline(chunk: bytes | bytearray, count: int) -> int:
    """Return the position after the count-th newline, the end if there are fewer, or 0 for a count below 1."""
    at = 0
    for _ in range(count):
        index = chunk.find(b"\n", at)
        if index < 0:
            return len(chunk)
        at = index + 1
    return at


def _no_text(raw: bytes) -> bool:
    text = raw.decode("utf-8", "replace")
    undecodable = text.count("\ufffd") - raw.count(_REPLACEMENT)
    return b"\0" in raw or undecodable > max(1, _UNDECODABLE * len(text))


def shown_lines(
    span: LineSpan, start: int, *, ranged: bool, shown_bytes: int, scrub: Callable[[str], str] = str
) -> str:
    """Return the span as at most ``shown_bytes`` bytes of text, made of whole lines.

    A complete small file of plain text is returned as is. Otherwise a header in brackets gives the line numbers, how to
    read on, and what is displayed differently from the file.
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
    complete = fitting == len(lines) and not span.more
    total = str(span.lines) if span.counted else f"more than {span.lines}"
    if fitting == 0:
        header = [f"line {start} of {total} is too long: this is its beginning; run_command can cut out a part of it"]
        body, after = cut(scrub(lines[0]), room), start + 1
    else:
        header = [f"lines {start}-{start + fitting - 1} of {total}"]
        body, after = "".join(lines[:fitting]), start + fitting
    if not complete and (after <= span.lines or not span.counted):
        header.append(f"read on with start_line={after}")
    return cut(f"[{'; '.join(header + notes)}]\n{body}", shown_bytes)


def _text_of(span: LineSpan) -> tuple[str, list[str]]:
    """Return the span's text with control characters made visible, and notes on what differs from the file."""
    raw, notes = span.raw, []
    ends = raw.count(b"\r\n")
    if ends and ends == raw.count(b"\r") == raw.count(b"\n"):
        raw = raw.replace(b"\r\n", b"\n")
        notes.append("lines end in CRLF")
    text = raw.decode("utf-8", "replace")
    if text.count("\ufffd") > raw.count(_REPLACEMENT) + span.more:
        notes.append("bytes that are not UTF-8 appear as U+FFFD")
    printable = visible(text)
    if printable != text:
        notes.append("control characters are shown escaped")
    return printable, notes
