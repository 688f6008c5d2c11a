"""What the provider's cache did for a prompt: as it was recorded, or as the simulator of its rules says."""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from stackmem.core.messages import Usage, View
from stackmem.measure.cache import Cache, CacheRequest
from stackmem.measure.prefix import PromptBlock, text_of

MINIMUM_TOKENS = 1_024  # of most models; shorter prefixes are not kept
_CHARS_PER_TOKEN = 2.5  # as estimated usage counts
_FIRST = ("first request", "new conversation")  # nothing was there to break
LIVES_SECONDS = 300
_SLACK = 0.02  # providers count a prefix twice with small differences


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
        cached = self._cache.answer(CacheRequest(sent, view))
        read = min(cached.read, prompt_tokens)
        written = min(cached.written_5m + cached.written_1h, prompt_tokens - read)
        return Served(read, written, "" if cached.broken in _FIRST else cached.broken)


def _tokens(block: PromptBlock) -> int:
    return ceil(len(text_of(block)) / _CHARS_PER_TOKEN)


class _Last(Struct):
    at: float
    held: int
    messages: int


class Breaks:
    """Told of each request in turn, says why its prefix broke; knows only what was recorded and rendered."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}

    def why(self, frame: str, at: float, usage: Usage, same: int, messages: int) -> str:
        """The reason in words; empty where the cache held what the frame's last request left in it.

        Args:
            at: When the reply came.
            same: Messages that the frame's last prompt and this one both start with; -1 for a frame's first prompt.
            messages: Of this prompt.
        """
        last = self._last.get(frame)
        held = usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
        self._last[frame] = _Last(at, held, messages)
        if usage.estimated or last is None or usage.cache_read >= last.held * (1 - _SLACK):
            return ""
        lost = f"{last.held - usage.cache_read:,} tokens of the last prompt were not read"
        if 0 <= same < last.messages:
            return f"{lost}: message {same + 1} of {last.messages} is not what it was"
        waited = at - last.at
        if waited > LIVES_SECONDS:
            return f"{lost}: this frame's last request was {waited / 60:.1f} minutes ago, an entry lives 5"
        return f"{lost}, though the prompt starts as the last one did {waited:,.0f} s before: the provider let it go"
