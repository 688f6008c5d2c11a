"""The images of a run: files named by their digest in its folder. The trace contains only the digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from stackmem.core.errors import TraceError
from stackmem.foreign.files import read_regular

from .lineage import sources
from .program import keep_bytes

IMAGES = "images"
MAX_IMAGE_BYTES = 64 << 20


def keep_image(run_dir: Path, raw: bytes) -> str:
    """Store an image in the run's folder and return its digest."""
    return keep_bytes(run_dir / IMAGES, raw, "image")


def images_of(run_dir: Path) -> Callable[[str], bytes]:
    """Return a reader of the images stored by a run or by the runs it was forked from.

    The reader raises ``TraceError`` if an image is missing or was changed.
    """

    def image(digest: str) -> bytes:
        if len(digest) != 64 or not digest.isalnum():
            raise TraceError(f"{digest[:80]!a} is not the digest of an image; the trace was changed")
        for folder, _, _ in reversed(sources(run_dir)):
            try:
                raw = read_regular(folder / IMAGES / digest, MAX_IMAGE_BYTES)
            except OSError:
                continue
            if hashlib.sha256(raw).hexdigest() != digest:
                raise TraceError(f"the image {folder / IMAGES / digest} was changed; restore the original")
            return raw
        raise TraceError(f"{run_dir / IMAGES} lacks the image {digest[:16]}…; restore it")

    return image
