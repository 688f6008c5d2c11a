"""Dials that make the reader less than perfect. Each is off by default and named after a measured effect.

- ``lost``: share of facts that are left out whenever they should be stored or handed over. No measurement was found, so
  the settings are guesses.
- ``long``: chance of missing a visible fact at a use in a prompt of 128,000 tokens. It is proportional to the length,
  doubled if the fact had changed, and at most 0.9. Published losses grow about linearly (NoLiMa, RULER).
- ``noticed``: share of the misses that cost a second look. The other misses use a wrong value.
- ``summary``: share of the facts that a summary keeps, whatever its length. Without it, a summary has forty lines.

Whether a fact is affected depends only on the fact and on where it is used. It is the same for every strategy and in
every process. Source: docs/simulated-model.md.
"""

from __future__ import annotations

import hashlib
from math import isfinite

from msgspec import Struct
from msgspec.structs import asdict, replace

from stackmem.errors import UsageError

FULL_LENGTH_TOKENS = 128_000
_MOST = 0.9


class ReaderDials(Struct, frozen=True):
    """Shares from 0 to 1. If ``summary`` is None, the length limit applies instead of a share."""

    lost: float = 0.0
    long: float = 0.0
    noticed: float = 1.0
    summary: float | None = None

    def loses(self, key: str, value: str) -> bool:
        """Return whether the fact is left out where it would be stored or handed over."""
        return self.lost > 0 and luck("lost", key, value) < self.lost

    def summarizes(self, key: str, value: str) -> bool:
        return self.summary is None or luck("summary", key, value) < self.summary

    def misses(self, key: str, value: str, use: str, tokens: float, *, changed: bool) -> bool:
        """Return whether the fact is missed at this use in a prompt of ``tokens`` tokens."""
        if self.long == 0:
            return False
        chance = self.long * tokens / FULL_LENGTH_TOKENS * (2 if changed else 1)
        return luck("long", key, value, use) < min(_MOST, chance)

    def notices(self, key: str, value: str, use: str) -> bool:
        return luck("noticed", key, value, use) < self.noticed


PERFECT = ReaderDials()
SETTINGS = {
    "mild": ReaderDials(lost=0.02, long=0.02, noticed=0.9, summary=0.9),
    "middle": ReaderDials(lost=0.1, long=0.08, noticed=0.7, summary=0.6),
    "harsh": ReaderDials(lost=0.3, long=0.3, noticed=0.5, summary=0.2),
}


def luck(*words: str) -> float:
    """Return a number in [0, 1) that depends only on the words."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return int.from_bytes(digest[:7]) / 256**7


def read_dial(dials: ReaderDials, text: str) -> ReaderDials | None:
    """Return the dials of a setting, or ``dials`` with ``NAME=SHARE`` applied; None if ``text`` is neither."""
    if text in SETTINGS:
        return SETTINGS[text]
    name, equals, raw = text.partition("=")
    if not equals or name not in asdict(PERFECT):
        return None
    try:
        share = float(raw)
    except ValueError:
        share = -1.0
    if not (isfinite(share) and 0 <= share <= 1):
        raise UsageError(f"the dial {name} of the simulated model takes a share from 0 to 1, not {raw[:80]!r}")
    return replace(dials, **{name: share})
