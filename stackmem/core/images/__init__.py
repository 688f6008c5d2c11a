"""Images in a conversation: references by digest.

The text of a result or a notice names each of its images in a line. The message only adds references, and the adapter
of a provider replaces them by the stored bytes when it sends the request. So whatever reads texts ignores images, and
a strategy that shortens a result also drops its images.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, Struct, UnsetType

CHARS_PER_TOKEN = 2.5
"""As in the estimates of text."""


class ImageRef(Struct, frozen=True):
    """An image of a run, which the run stores under its digest."""

    digest: str  # SHA-256 of the stored bytes, in hex
    media: str  # the media type, such as ``image/png``
    bytes: int  # the size of the stored bytes
    # width, height: in pixels, as stored
    width: int
    height: int
    tokens: int  # what it takes of a prompt, by the rule of the run's model


Images = tuple[ImageRef, ...] | UnsetType
ImageBytes = Callable[[str], bytes | None]
"""Returns the bytes of an image for its digest. None leaves the image out of a request."""


def no_image(digest: str) -> bytes | None:
    return None


def listed(images: Images) -> tuple[ImageRef, ...]:
    return () if images is UNSET else images


def image_chars(images: Images) -> int:
    """Return the characters that count as much as the images in an estimate of a prompt."""
    return 0 if images is UNSET else int(sum(image.tokens for image in images) * CHARS_PER_TOKEN)
