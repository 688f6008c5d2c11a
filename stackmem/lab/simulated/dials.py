"""How far the reader is from a perfect one: dials, each off by default, named after what is measured of real models.

- ``lost``: share of facts that are left out wherever they would be stored or handed over. No measurement was found; the
  settings are guesses.
- ``long``: chance that a fact in sight is missed at a use, in a prompt of 128,000 tokens; in others in proportion, at
  most 0.9, twice that where the fact had changed. Published losses grow about linearly with the length (NoLiMa, RULER).
- ``noticed``: share of the misses that cost a second look; the others use a wrong value.
- ``summary``: share of the facts that a summary keeps, however long it may be; without it forty lines.

The luck of a fact hangs on the fact and where it is used, and on nothing else: the same for every strategy, and in any
process. Source: docs/simulated-model.md.
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
    """Shares from 0 to 1; ``summary`` None is no share of its own."""

    lost: float = 0.0
    long: float = 0.0
    noticed: float = 1.0
    summary: float | None = None

    def loses(self, key: str, value: str) -> bool:
        """Whether the fact is left out where it would be stored or handed over."""
        return self.lost > 0 and luck("lost", key, value) < self.lost

    def summarizes(self, key: str, value: str) -> bool:
        return self.summary is None or luck("summary", key, value) < self.summary

    def misses(self, key: str, value: str, use: str, tokens: float, *, changed: bool) -> bool:
        """Whether the fact is missed at this use, in a prompt of so many tokens."""
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
    """A number from 0 to 1, below 1, the same for the same words."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return int.from_bytes(digest[:7]) / 256**7


def read_dial(dials: ReaderDials, text: str) -> ReaderDials | None:
    """``dials`` with a setting by its name, or ``NAME=SHARE``, over them; None where ``text`` is neither."""
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
