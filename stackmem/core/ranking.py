"""Which texts fit a query best: BM25 over words.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

_K1, _B = 1.2, 0.75

MOST_GAIN = _K1 + 1
"""No text gains more by a word, however often it holds it."""

_WORD = re.compile(r"[^\W_]+")


class Counted(Struct, frozen=True):
    """A text's words, counted once.

    Attributes:
        length: Words in all.

    """

    often: dict[str, int]
    length: int


def words(text: str) -> list[str]:
    """Its words in lower case; ``snake_case`` and paths fall into their parts."""
    return _WORD.findall(text.lower())


def counted(text: str) -> Counted:
    often = Counter(words(text))
    return Counted(dict(often), often.total())


def rarity(texts: int, holding: int) -> float:
    """What a word weighs that ``holding`` of so many texts hold."""
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


def drag(length: int, mean: float) -> float:
    """What holds a text of so many words back; ``mean`` is the length of texts in words."""
    return _K1 * (1 - _B + _B * length / mean)


def saturation(often: int, drag: float) -> float:
    """What a text gains by a word that it holds so often."""
    return often * MOST_GAIN / (often + drag)


def scores(query: str, texts: Sequence[Counted]) -> list[float]:
    """How well each text fits the query; 0.0 where they share no word."""
    found = [0.0] * len(texts)
    mean = sum(text.length for text in texts) / max(1, len(texts)) or 1.0
    for word in dict.fromkeys(words(query)):
        holding = sum(word in text.often for text in texts)
        weight = rarity(len(texts), holding)
        for place, text in enumerate(texts if holding else ()):
            often = text.often.get(word, 0)
            if often:
                found[place] += weight * saturation(often, drag(text.length, mean))
    return found


def best(query: str, texts: Sequence[Counted], most: int) -> list[int]:
    """The places of the texts that fit best, best first, at most ``most``; of equals the first. None that shares no
    word with the query is among them.
    """
    fits = scores(query, texts)
    return sorted((place for place, fit in enumerate(fits) if fit > 0), key=lambda place: -fits[place])[:most]
