"""Why the provider's cache held less of a prompt than of the one before it in the same frame."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import Usage

LIVES_SECONDS = 300
_SLACK = 0.02  # providers count a prefix twice with small differences


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
