"""The providers' documented rules for images in requests, and images to test them with."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator
from typing import Any

SENT = {"image/png", "image/jpeg", "image/webp", "image/gif"}
STARTS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}


def png(width: int, height: int, *more: tuple[bytes, bytes], color: int = 0x80) -> bytes:
    """Return a gray PNG, with further chunks before its data."""
    rows = b"".join(b"\0" + bytes([color]) * width for _ in range(height))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), *more]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return STARTS["image/png"] + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def size_of(raw: bytes) -> tuple[int, int]:
    """Return the size of a PNG or a baseline JPEG."""
    if raw.startswith(STARTS["image/png"]):
        width, height = struct.unpack(">II", raw[16:24])
        return width, height
    at = raw.index(b"\xff\xc0")
    height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
    return width, height


def data_faults(media: Any, data: Any, most_bytes: int) -> Iterator[str]:
    if media not in SENT:
        yield f"media_type: {media!r} is not supported"
        return
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError):
        yield "the data is not base64"
        return
    if not raw.startswith(STARTS[media]):
        yield f"the image was specified using {media}, but it is another type"
    if len(data) > most_bytes:
        yield f"image exceeds {most_bytes} bytes: {len(data)} bytes"


def url_faults(url: Any, most_bytes: int = 20 << 20) -> Iterator[str]:
    """Check a data URL, as OpenAI's APIs take it."""
    head, comma, data = str(url).partition(",")
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        yield f"{str(url)[:40]!r} is not a data URL"
        return
    yield from data_faults(head.removeprefix("data:").removesuffix(";base64"), data, most_bytes)


def claude_faults(blocks: list[dict[str, Any]]) -> Iterator[str]:
    """Check all image blocks of a request to the Messages API."""
    most = 2000 if len(blocks) > 20 else 8000
    if len(blocks) > 600:
        yield f"{len(blocks)} images, at most 600"
    for block in blocks:
        source = block.get("source", {})
        if source.keys() != {"type", "media_type", "data"} or source["type"] != "base64":
            yield f"source: {sorted(source)}"
            continue
        found = list(data_faults(source["media_type"], source["data"], 5 << 20))
        yield from found
        if not found and max(size_of(base64.b64decode(source["data"]))) > most:
            yield f"at least one of the image dimensions exceeds max allowed size: {most} pixels"


def chat_fault(body: dict[str, Any]) -> str | None:
    """Return what OpenAI's Chat Completions API refuses about the images of a request."""
    for message in body["messages"]:
        content = message["content"]
        if message["role"] != "user":
            if content is not None and not isinstance(content, str):
                return f"a message of {message['role']} takes only text"
            continue
        for part in content if isinstance(content, list) else ():
            if part["type"] == "image_url":
                if fault := next(url_faults(part["image_url"]["url"]), None):
                    return fault
            elif part.keys() != {"type", "text"}:
                return f"a part has {sorted(part)}"
    return None
