"""Converts a file to pictures for a model: within the provider's limits, and without metadata.

Rule 1: The size is read from the header before anything is decoded.
Rule 2: Decoding happens in a process that can open nothing, with limits of memory and time.
Rule 3: Every failure is a ``PictureRefused`` with advice.

Without Pillow, an image within the limits is sent as it is, without its metadata, and a larger one is refused.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stackmem.core.errors import WorkspaceError
from stackmem.core.images.vision import Vision
from stackmem.foreign.installing import install_command
from stackmem.run.companion.pictures import (
    MAX_FILE_BYTES,
    PDF,
    BrokenImage,
    Picture,
    PictureRefused,
    Pictures,
    media_of,
)
from stackmem.workspace.isolation import confine
from stackmem.workspace.isolation.seccomp import build_filter

from . import decoder
from .headers import Header, header, without_metadata

MAX_PIXELS = 50_000_000
MAX_PAGES = 10
SECONDS = 60.0
_MAKE_SMALLER = "make a smaller copy with run_command and read that"


def converted(raw: bytes, vision: Vision, pages: tuple[int, ...] = ()) -> Pictures:
    """Return the pictures of a file.

    ``raw`` is the whole file, or more bytes than are accepted. ``pages`` are numbers of the pages of a PDF, from 1.
    Empty is the first.
    """
    media = media_of(raw[:1024])
    if media == PDF:
        return _pdf(raw, vision, pages or (1,))
    if not media:
        raise PictureRefused(f"it is not a PNG, JPEG, GIF or WebP image or a PDF: its first bytes are {raw[:8]!r}")
    if pages:
        raise PictureRefused(f"it is a {media.partition('/')[2].upper()} image without pages; leave `pages` out")
    _must_be_short(len(raw), "image")
    try:
        head = header(raw)
        if head.width * head.height > MAX_PIXELS:
            raise PictureRefused(
                f"it has {head.width:,} x {head.height:,} pixels, more than {MAX_PIXELS:,}; {_MAKE_SMALLER}"
            )
        return _image(raw, head, vision)
    except BrokenImage as error:
        raise PictureRefused(
            f"the {media.partition('/')[2].upper()} image is broken: {error}; save it again, or get a whole copy"
        ) from error


def _must_be_short(size: int, kind: str) -> None:
    most = MAX_FILE_BYTES[kind]
    if size > most:
        raise PictureRefused(f"it is larger than {most >> 20} MB, the most that is decoded; {_MAKE_SMALLER}")


def _image(raw: bytes, head: Header, vision: Vision) -> Pictures:
    plain = without_metadata(raw, head.media)
    fitted = vision.fitted(head.width, head.height)
    size = (head.width, head.height)
    keep = len(plain) <= vision.image_bytes and head.media in vision.types
    if find_spec("PIL") is None:
        if fitted != size or not keep or head.several:
            raise PictureRefused(
                f"scaling or converting a {head.kind} image of {head.width} x {head.height} pixels needs Pillow; "
                f"ask the user to install it ({install_command('vision')}), or {_MAKE_SMALLER}"
            )
        return Pictures((Picture(plain, head.media, *size),), f"{head.width}x{head.height} {head.kind}")
    order = {"width": fitted[0], "height": fitted[1], "most_bytes": vision.image_bytes, "keep": keep}
    answer, pictures = _decoded(raw, order)
    if answer.get("same"):
        pictures = (Picture(plain, head.media, *size),)
    words = f"{head.width}x{head.height} {head.kind}"
    if (pictures[0].width, pictures[0].height) not in (size, size[::-1]):
        words += f", shown as {pictures[0].width}x{pictures[0].height}"
    if answer.get("frames", 1) > 1:
        words += f", the first of {answer['frames']:,} frames"
    return Pictures(pictures, words)


def _pdf(raw: bytes, vision: Vision, pages: tuple[int, ...]) -> Pictures:
    _must_be_short(len(raw), "pdf")
    if len(pages) > MAX_PAGES:
        raise PictureRefused(f"{len(pages):,} pages are too many together; read at most {MAX_PAGES}")
    if find_spec("pypdfium2") is None or find_spec("PIL") is None:
        raise PictureRefused(
            f"showing pages of a PDF needs pypdfium2 and Pillow; ask the user to install them "
            f"({install_command('vision')}), or extract its text with run_command"
        )
    width, height = vision.fitted(7_071, 10_000)
    order = {"pages": pages, "edge": height, "area": width * height, "most_bytes": vision.image_bytes}
    answer, pictures = _decoded(raw, order)
    count = answer["pages"]
    if len(pictures) < len(pages):
        missing = next(number for number in pages if number > count)
        raise PictureRefused(f"page {missing:,} does not exist; the PDF has {count:,} pages")
    listed = f"{pages[0]}" if len(pages) == 1 else f"{pages[0]} to {pages[-1]}"
    return Pictures(pictures, f"PDF, page{'s' * (len(pages) > 1)} {listed} of {count:,}")


def _decoded(raw: bytes, order: dict[str, Any]) -> tuple[dict[str, Any], tuple[Picture, ...]]:
    """Run the decoder on a file and return its answer."""
    order = {**order, "confine": _confinement(), "pixels": MAX_PIXELS}
    command = [sys.executable, "-I", decoder.__file__, json.dumps(order)]
    try:
        ended = subprocess.run(command, input=raw, capture_output=True, timeout=SECONDS, check=False, env={})
    except subprocess.TimeoutExpired:
        raise PictureRefused(f"decoding it takes more than {SECONDS:.0f} seconds; {_MAKE_SMALLER}") from None
    except OSError as error:
        raise WorkspaceError(f"the decoder of images cannot be started ({error.strerror})") from error
    line, _, rest = ended.stdout.partition(b"\n")
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError:
        reason = "took too much time or memory" if ended.returncode < 0 else f"failed with exit code {ended.returncode}"
        raise PictureRefused(f"the decoder {reason}; {_MAKE_SMALLER}") from None
    if "error" in answer:
        raise PictureRefused(f"it cannot be decoded: {answer['error']}")
    pictures = []
    for each in answer["pictures"]:
        pictures.append(Picture(rest[: each["bytes"]], each["media"], each["width"], each["height"]))
        rest = rest[each["bytes"] :]
    return answer, tuple(pictures)


def _confinement() -> list[Any]:
    """Return where the code of confinement is and its order; empty on a system without Landlock."""
    try:
        abi = confine.landlock_abi()
        filtered = base64.b64encode(build_filter(families=(), tracing=False)).decode()
    except (AttributeError, OSError, WorkspaceError):
        return []
    if not abi:
        return []
    order = {
        "abi": abi,
        "grants": [],
        "tcp": True,
        "scope": True,
        "loopback": False,
        "cover": [],
        "numbers": 0,
        "filter": filtered,
    }
    return [str(Path(confine.__file__)), order]
