"""How many trials may ask one provider at once: one more after a quiet round, half as many when it complains (AIMD)."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

QUIET_SECONDS = 10.0
"""Complaints within so long after one are about the same burst and halve nothing further."""


def provider_of(model: str) -> str:
    """Who is asked: what stands before ``/`` or ``:``."""
    if model.startswith("claude-"):
        return "anthropic"
    return model.replace(":", "/").partition("/")[0]


class Pace:
    """Begins at the most that was allowed and finds out what the provider takes."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self._allowed: dict[str, float] = {}
        self._complained: dict[str, float] = {}

    def allowed(self, provider: str) -> float:
        return self._allowed.get(provider, self._most.get(provider, inf))

    def may_start(self, provider: str, running: int) -> bool:
        """Whether one more trial may, beside ``running`` ones of the same provider; the first always may."""
        return running < max(1.0, self.allowed(provider))

    def throttled(self, provider: str, running: int, now: float) -> None:
        """The provider said that it is asked too much, by ``running`` trials."""
        if now - self._complained.get(provider, -inf) < QUIET_SECONDS:
            return
        self._complained[provider] = now
        self._allowed[provider] = max(1.0, min(self.allowed(provider), running) / 2)

    def finished(self, provider: str) -> None:
        """A trial ended without a complaint."""
        if provider in self._allowed:
            now = self._allowed[provider]
            self._allowed[provider] = min(now + 1 / now, float(self._most.get(provider, 10_000)))
