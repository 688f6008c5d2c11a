"""Which models see images, with each provider's documented limits.

Sources, read 2026-11-28: Anthropic's page on vision (patches of 28 pixels, 1568 or 2576 pixels, 100 or 600 images,
32 MB a request, 2000 pixels with more than 20 images), OpenAI's page on images and vision (tiles of 512 or patches of
32 pixels, 500 images, 50 MB), Google's pages on image understanding and media resolution (258 tokens a tile, or 1,120
tokens an image from Gemini 3 on; 20 MB a request). Servers report their own counts; these rules only estimate.
"""

from __future__ import annotations

import re
from typing import Literal

from stackmem.core.images.vision import Vision

from .catalog import lookup

MIB = 1 << 20

_CLAUDE = Vision("claude", 1568, 1_568, 5 * MIB // 4 * 3, 100, 20 * MIB)
# 2000 pixels, not 2576: larger ones are refused as soon as a request has more than 20 images.
_CLAUDE_HIGH = Vision("claude-high", 2000, 4_784, 5 * MIB // 4 * 3, 600, 20 * MIB)
_TILES = Vision("openai-tiles", 2048, 1_445, 15 * MIB, 500, 34 * MIB)
_PATCHES = Vision("openai-patches", 2048, 2_500, 15 * MIB, 500, 34 * MIB)
_GEMINI_TILES = Vision("gemini-tiles", 3072, 4_128, 7 * MIB, 1_000, 14 * MIB)
_GEMINI_FLAT = Vision("gemini-flat", 3072, 1_120, 7 * MIB, 1_000, 14 * MIB)
LOCAL = Vision("patches", 1568, 2_500, 5 * MIB, 50, 50 * MIB)

_BLIND = re.compile(r"deepseek|codestral|embed|whisper|gpt-3\.5|gpt-oss|o1-mini|o3-mini", re.IGNORECASE)
_SEES = re.compile(
    r"claude-|gpt-4o|gpt-4\.1|gpt-[5-9]|\bo[134]\b|chatgpt|gemini|-vl\b|\bvl-|llava|pixtral|vision|internvl|minicpm-v|"
    r"moondream|qwen3\.5|gemma-?[34]|llama-?4",
    re.IGNORECASE,
)
_OLD_CLAUDE = re.compile(r"claude-(3|opus-4-[0156]|sonnet-4|haiku-4)")
_TILED = re.compile(r"gpt-4o(?!-mini)|gpt-4\.1$|gpt-5$|gpt-5\.[0-3]|\bo[13]\b")
_OLD_GEMINI = re.compile(r"gemini-(1|2)")


def vision_of(name: str, setting: Literal["auto", "on", "off"]) -> Vision | None:
    """Return how a model takes images, or None if it cannot see any.

    Args:
        name: With the provider, as in ``anthropic/claude-opus-5``.
    """
    if setting == "off":
        return None
    row = lookup(name)
    sees = row.vision if row is not None else known_to_see(name)
    return _rule(name) if setting == "on" or sees else None


def known_to_see(name: str) -> bool:
    """Return whether the name belongs to a family of models that see."""
    return bool(_SEES.search(name)) and not _BLIND.search(name)


def _rule(name: str) -> Vision:
    provider, _, model = name.partition("/")
    if provider == "anthropic" or "claude-" in model:
        return _CLAUDE if _OLD_CLAUDE.search(model) else _CLAUDE_HIGH
    if provider == "gemini" or "gemini" in model:
        return _GEMINI_TILES if _OLD_GEMINI.search(model) else _GEMINI_FLAT
    if provider in ("openai", "responses") and re.search(r"gpt-|\bo\d\b", model):
        return _TILES if _TILED.search(model) else _PATCHES
    return LOCAL
