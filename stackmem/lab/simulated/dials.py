"""Dials that make the reader less than perfect. Each is off by default and named after a measured effect.

- ``lost``: share of facts that are left out whenever they should be stored or handed over. No measurement was found, so
  the settings are guesses.
- ``long``: chance of missing a visible fact at a use in a prompt of 128,000 tokens. It is proportional to the length,
  doubled if the fact had changed, and at most 0.9. It can exceed 1, because some models miss that much in far shorter
  prompts. Published losses grow about linearly (NoLiMa, RULER); ``published.py`` compares them.
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

from stackmem.core.errors import UsageError

FULL_LENGTH_TOKENS = 128_000
_MOST = 0.9
_MAX_LONG = 10.0


class ReaderDials(Struct, frozen=True):
    """Shares from 0 to 1; ``long`` can be larger. If ``summary`` is None, the length limit applies instead."""

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
        return self.long > 0 and luck("long", key, value, use) < self.chance(tokens, changed=changed)

    def chance(self, tokens: float, *, changed: bool = False) -> float:
        """Return the chance of missing a fact at one use in a prompt of ``tokens`` tokens."""
        return min(_MOST, self.long * tokens / FULL_LENGTH_TOKENS * (2 if changed else 1))

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
    """Return the dials of a setting, or ``dials`` with ``NAME=SHARE`` applied; None if ``text`` is neither.

    Raise UsageError if the share of a dial is not valid.
    """
    if text in SETTINGS:
        return SETTINGS[text]
    name, equals, raw = text.partition("=")
    if not equals or name not in asdict(PERFECT):
        return None
    try:
        share = float(raw)
    except ValueError:
        share = -1.0
    most = _MAX_LONG if name == "long" else 1.0
    if not (isfinite(share) and 0 <= share <= most):
        raise UsageError(f"the dial {name} of the simulated model takes a number from 0 to {most:g}, not {raw[:80]!r}")
    return replace(dials, **{name: share})
