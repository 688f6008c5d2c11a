"""Decompresses copies of requests and answers, with a size limit.

The libraries for ``br`` and ``zstd`` are imported at their first use.
"""

from __future__ import annotations

import io
import zlib

READ_HERE = ("gzip", "x-gzip", "deflate", "br", "zstd", "identity")
"""Content codings that can be decompressed."""
_MAX_CODINGS = 4
_MAX_WINDOW = 1 << 27


def decoded(body: bytes, codings: str, most: int, coding: str) -> bytes:
    """Decompress a body as its ``content-encoding`` says; an incomplete body gives its beginning.

    Raise ``ValueError`` if that is impossible or gives more than ``most`` bytes; ``coding`` names the body.
    """
    names = [name for entry in codings.lower().split(",") if (name := entry.strip())]
    if len(names) > _MAX_CODINGS:
        raise ValueError(f"{coding} is compressed {len(names)} times")
    # The header lists the codings in the order in which they were applied.
    for name in reversed(names):
        body = _decoded(body, name, most, coding)
        if len(body) > most:
            raise ValueError(f"{coding} is longer than {most >> 20} MiB")
    return body


def _decoded(body: bytes, coding: str, most: int, label: str) -> bytes:
    """Undo one coding; the result may be one byte longer than ``most``."""
    match coding:
        case "identity":
            return body
        case "gzip" | "x-gzip" | "deflate":
            return _inflated(body, coding, most, label)
        case "br":
            return _unbrotli(body, most, label)
        case "zstd":
            return _unzstd(body, most, label)
        case _:
            raise ValueError(f"{label} is coded as {coding[:20]!r}, which cannot be read here")


def _inflated(body: bytes, coding: str, most: int, label: str) -> bytes:
    # Some senders of ``deflate`` omit the zlib header.
    raw = coding == "deflate" and not (len(body) > 1 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0)
    opened = zlib.decompressobj(wbits=-15 if raw else 15 if coding == "deflate" else 31)
    try:
        # One byte more than allowed, so that the caller can tell a full body from a longer one.
        return opened.decompress(body, most + 1)
    except zlib.error as error:
        raise ValueError(f"{label} is not valid {coding}: {error}") from error


def _unbrotli(body: bytes, most: int, label: str) -> bytes:
    import brotli  # type: ignore[import-untyped]

    opened = brotli.Decompressor()
    pieces, size, rest = list[bytes](), 0, body
    try:
        while size <= most and (piece := opened.process(rest, output_buffer_limit=most + 1 - size)):
            pieces.append(piece)
            size, rest = size + len(piece), b""
            if opened.is_finished():
                break
    except brotli.error as error:
        raise ValueError(f"{label} is not valid br: {error}") from error
    return b"".join(pieces)[: most + 1]


def _unzstd(body: bytes, most: int, label: str) -> bytes:
    import zstandard

    # The sender chooses the window, which is allocated before the first byte is decoded.
    opened = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    try:
        with opened.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
            return reader.read(most + 1)
    except zstandard.ZstdError as error:
        raise ValueError(f"{label} is not valid zstd: {error}") from error
