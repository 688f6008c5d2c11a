"""How models take images: the tokens of an image by each provider's rule, and the sizes that are sent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

SENT_TYPES = ("image/png", "image/jpeg", "image/webp")
"""The media types that are sent. Servers on this machine may not read WebP."""
Rule = Literal["claude", "claude-high", "openai-tiles", "openai-patches", "gemini-tiles", "gemini-flat", "patches"]


class Vision(Struct, frozen=True):
    """How a model takes images, recorded at the start of a run."""

    rule: Rule  # how the provider counts the tokens of an image
    longest_edge: int  # pixels of the longer side to which a larger image is scaled down
    most_tokens: int  # tokens of one image to which a larger image is scaled down
    image_bytes: int  # maximum size of one image
    images: int  # maximum number of images in one request
    request_bytes: int  # maximum size of all images of one request together

    def tokens(self, width: int, height: int) -> int:
        return _RULES[self.rule](width, height)

    @property
    def types(self) -> tuple[str, ...]:
        """The media types that can be sent without conversion."""
        return SENT_TYPES[:2] if self.rule == "patches" else SENT_TYPES

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the largest size of this shape that the provider does not scale down itself."""
        scale = min(1.0, self.longest_edge / max(width, height))
        fits = _scaled(width, height, scale)
        while self.tokens(*fits) > self.most_tokens and max(fits) > 1:
            scale *= min(0.99, math.sqrt(self.most_tokens / self.tokens(*fits)))
            fits = _scaled(width, height, scale)
        return fits


def _scaled(width: int, height: int, scale: float) -> tuple[int, int]:
    return max(1, int(width * scale)), max(1, int(height * scale))


def _patches(edge: int) -> Callable[[int, int], int]:
    return lambda width, height: math.ceil(width / edge) * math.ceil(height / edge)


def _openai_tiles(width: int, height: int) -> int:
    """Tiles of 512 pixels, after the image is scaled into 2048 × 2048 and its shorter side to 768."""
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _gemini_tiles(width: int, height: int) -> int:
    """One tile up to 384 × 384; otherwise tiles of two thirds of the shorter side, from 256 to 768 pixels."""
    if max(width, height) <= 384:
        return 258
    edge = min(768, max(256, int(min(width, height) / 1.5)))
    return 258 * math.ceil(width / edge) * math.ceil(height / edge)


_RULES: dict[Rule, Callable[[int, int], int]] = {
    "claude": _patches(28),
    "claude-high": _patches(28),
    "openai-tiles": _openai_tiles,
    "openai-patches": _patches(32),
    "gemini-tiles": _gemini_tiles,
    "gemini-flat": lambda *_: 1_120,
    "patches": _patches(28),
}
