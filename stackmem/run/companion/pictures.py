"""Recognizes images and PDFs by their first bytes, and the values that their conversion returns."""

from __future__ import annotations

from msgspec import Struct

PDF = "application/pdf"
PNG = b"\x89PNG\r\n\x1a\n"
MAX_FILE_BYTES = {"image": 32 << 20, "pdf": 64 << 20}


class Picture(Struct, frozen=True):
    """A picture as it is stored and sent."""

    raw: bytes
    media: str
    width: int
    height: int


class Pictures(Struct, frozen=True):
    """The pictures of a file, and what their text says about it."""

    pictures: tuple[Picture, ...]
    description: str


class PictureRefused(Exception):  # noqa: N818 - an answer for the model
    """Why a file cannot be shown as a picture, and what to do."""


class BrokenImage(ValueError):  # noqa: N818 - a finding about a file
    """An image whose structure is wrong. The message says what, in a clause."""


def media_of(start: bytes) -> str:
    """Return the media type of a file from its first bytes, or an empty string for any other."""
    if start.startswith(PNG):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return PDF if b"%PDF-" in start[:1024] else ""
