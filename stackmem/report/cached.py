"""What the provider's cache did for a prompt: as it was recorded, or as the simulator of its rules says."""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from stackmem.core.messages import Usage, View
from stackmem.measure.cache import Cache, Request
from stackmem.measure.prefix import Block, text_of

MINIMUM_TOKENS = 1_024  # of most models; shorter prefixes are not kept
_CHARS_PER_TOKEN = 2.5  # as estimated usage counts
_FIRST = ("first request", "new conversation")  # nothing was there to break


class Served(Struct, frozen=True):
    """Tokens of one prompt.

    Attributes:
        broke: Why less was read than could have been; empty where it was not.

    """

    read: int
    written: int
    broke: str = ""


def recorded(usage: Usage, broke: str = "") -> Served:
    return Served(usage.cache_read, usage.cache_write_5m + usage.cache_write_1h, broke)


class Simulated:
    """A cache that starts empty and is told of each request in turn."""

    def __init__(self) -> None:
        self._cache = Cache(MINIMUM_TOKENS, _tokens)

    def serve(self, view: View, sent: float, prompt_tokens: int) -> Served:
        """What it does for a prompt of so many tokens, sent at that second."""
        cached = self._cache.answer(Request(sent, view))
        read = min(cached.read, prompt_tokens)
        written = min(cached.written_5m + cached.written_1h, prompt_tokens - read)
        return Served(read, written, "" if cached.broken in _FIRST else cached.broken)


def _tokens(block: Block) -> int:
    return ceil(len(text_of(block)) / _CHARS_PER_TOKEN)
