"""Reads the size of images without decoding them, and removes their metadata.

Every loop moves forward in the bytes that are already in memory, so time and memory are bounded by the file's size.

Source: PNG specification (third edition), ITU T.81, GIF89a, RFC 9649 (WebP).
"""

from __future__ import annotations

import re
import struct
import zlib

from msgspec import Struct

from stackmem.run.companion.pictures import PNG, BrokenImage, media_of

_PNG_KEPT = (b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD", b"pHYs")
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = {0x01, *range(0xD0, 0xD8)}
_JPEG_KEPT_APPS = {0xE0, 0xE2, 0xEE}  # JFIF, the color profile, Adobe's color transform
_NEXT_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]", re.DOTALL)


class Header(Struct, frozen=True):
    """The first bytes of an image."""

    media: str  # its media type
    width: int
    height: int
    several: bool = False  # whether it may be animated

    @property
    def kind(self) -> str:
        return self.media.partition("/")[2].upper()


def header(raw: bytes) -> Header:
    """Return the header of an image of a known type.

    Raise BrokenImage if the image is cut off or its header is wrong.
    """
    media = media_of(raw[:1024])
    try:
        result = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}[media](raw)
    except (struct.error, IndexError) as error:
        raise BrokenImage("it is cut off in its header") from error
    if not (result.width and result.height):
        raise BrokenImage(f"its header says {result.width}x{result.height} pixels")
    return result


def _png(raw: bytes) -> Header:
    length, name, width, height = struct.unpack(">I4sII", raw[8:24])
    if name != b"IHDR" or length != 13:
        raise BrokenImage("it does not begin with a header chunk")
    return Header("image/png", width, height, b"acTL" in raw[:4096])


def _gif(raw: bytes) -> Header:
    width, height = struct.unpack("<HH", raw[6:10])
    return Header("image/gif", width, height, several=True)


def _jpeg(raw: bytes) -> Header:
    for marker, at, end in _segments(raw):
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return Header("image/jpeg", width, height)
        if marker == 0xDA or end > len(raw):
            break
    raise BrokenImage("it has no frame header")


def _webp(raw: bytes) -> Header:
    kind, body = raw[12:16], raw[20:50]
    if kind == b"VP8X":
        width, height = (int.from_bytes(body[at : at + 3], "little") + 1 for at in (4, 7))
        return Header("image/webp", width, height, bool(body[0] & 2))
    if kind == b"VP8L":
        (bits,) = struct.unpack("<I", body[1:5])
        return Header("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", body[6:10])
        return Header("image/webp", width & 0x3FFF, height & 0x3FFF)
    raise BrokenImage("it has an unknown first chunk")


def _segments(raw: bytes) -> list[tuple[int, int, int]]:
    """Return the marker, start and end of each JPEG segment; that of a scan includes its data."""
    result, at = [], 2
    while at + 4 <= len(raw):
        if raw[at] != 0xFF:
            break
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xD9:
            result.append((marker, at, at + 2))
            return result
        end = at + 2 if marker in _JPEG_ALONE else at + 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
        if marker == 0xDA:
            after = _NEXT_MARKER.search(raw, end)
            end = after.start() if after else len(raw)
        result.append((marker, at, end))
        at = end
    if raw[at : at + 2] == b"\xff\xd9":
        result.append((0xD9, at, at + 2))
    return result


def without_metadata(raw: bytes, media: str) -> bytes:
    """Return an image without metadata, such as the place of a photo, and without bytes after its end.

    Raise BrokenImage if the image is cut off or damaged.
    """
    match media:
        case "image/png":
            return _plain_png(raw)
        case "image/jpeg":
            return _plain_jpeg(raw)
        case "image/webp":
            return _plain_webp(raw)
        case _:
            return raw


def _plain_png(raw: bytes) -> bytes:
    parts, at = [PNG], 8
    while at + 12 <= len(raw):
        length, name = struct.unpack(">I4s", raw[at : at + 8])
        end = at + 12 + length
        if end > len(raw):
            break
        if name in _PNG_KEPT:
            if zlib.crc32(raw[at + 4 : end - 4]) != int.from_bytes(raw[end - 4 : end], "big"):
                raise BrokenImage(f"its chunk {name.decode('ascii')} is damaged")
            parts.append(raw[at:end])
        if name == b"IEND":
            return b"".join(parts)
        at = end
    raise BrokenImage("it is cut off")


def _plain_jpeg(raw: bytes) -> bytes:
    segments = _segments(raw)
    if not segments or segments[-1][0] != 0xD9 or not any(marker == 0xDA for marker, _, _ in segments):
        raise BrokenImage("it is cut off")
    parts = [
        raw[at:end]
        for marker, at, end in segments
        if not ((0xE0 <= marker <= 0xEF and marker not in _JPEG_KEPT_APPS) or marker == 0xFE or _is_index(raw, at))
    ]
    return b"\xff\xd8" + b"".join(parts)


def _is_index(raw: bytes, at: int) -> bool:
    """Return whether a segment is the index of further images in the file, which are left out."""
    return raw[at : at + 2] == b"\xff\xe2" and raw[at + 4 : at + 8] == b"MPF\0"


def _plain_webp(raw: bytes) -> bytes:
    size = int.from_bytes(raw[4:8], "little") + 8
    if size > len(raw):
        raise BrokenImage("it is cut off")
    parts, at = [], 12
    while at + 8 <= size:
        name, length = raw[at : at + 4], int.from_bytes(raw[at + 4 : at + 8], "little")
        end = at + 8 + length + length % 2
        if name == b"VP8X":
            flags = raw[at + 8] & ~0x0C  # no EXIF and no XMP
            parts.append(raw[at : at + 8] + bytes([flags]) + raw[at + 9 : end])
        elif name not in (b"EXIF", b"XMP "):
            parts.append(raw[at:end])
        at = end
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body
