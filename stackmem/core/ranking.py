"""Which texts fit a query best: BM25 over words, by an index that grows.

Like ``Log``, an index is a view of the first ``len`` texts of a store that it may share with longer ones; adding to
the newest view extends the store, adding to an older one copies it first. What anyone holds never changes.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

_K1, _B = 1.2, 0.75
_MOST_GAIN = _K1 + 1
"""No text gains more by a word, however often it holds it."""
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Its words in lower case; ``snake_case`` and paths fall into their parts."""
    return _WORD.findall(text.lower())


class _Store:
    """Lengths of the texts in words, and for each word the texts that hold it, with how often."""

    __slots__ = ("lengths", "postings")

    def __init__(self, lengths: list[int], postings: dict[str, list[tuple[int, int]]]) -> None:
        self.lengths = lengths
        self.postings = postings


class Index:
    """Texts by the words in them, numbered from 0 in the order they were added."""

    __slots__ = ("_length", "_store", "_words")

    def __init__(self) -> None:
        self._store = _Store([], {})
        self._length = 0
        self._words = 0

    def __len__(self) -> int:
        return self._length

    def add(self, text: str) -> Index:
        store = self._store if len(self._store.lengths) == self._length else self._copy()
        counts = Counter(words(text))
        store.lengths.append(counts.total())
        for word, often in counts.items():
            store.postings.setdefault(word, []).append((self._length, often))
        longer = Index()
        longer._store, longer._length, longer._words = store, self._length + 1, self._words + counts.total()
        return longer

    def _copy(self) -> _Store:
        postings = {
            word: [posting for posting in holding if posting[0] < self._length]
            for word, holding in self._store.postings.items()
        }
        return _Store(self._store.lengths[: self._length], {word: some for word, some in postings.items() if some})

    def rarity(self, word: str) -> float:
        """What a word weighs: the more, the fewer texts of this view hold it."""
        holding = bisect_left(self._store.postings.get(word, ()), (self._length, 0))
        return math.log(1 + (self._length - holding + 0.5) / (holding + 0.5))

    def holds(self, word: str, first: int) -> bool:
        """Whether one of the ``first`` texts holds the word."""
        postings = self._store.postings.get(word)
        return postings is not None and postings[0][0] < min(first, self._length)

    def fits(self, weights: Mapping[str, float], first: int) -> list[float]:
        """How well each of the ``first`` texts fits words of these weights; 0.0 where it holds none of them."""
        store, first = self._store, min(first, self._length)
        mean = self._words / max(1, self._length) or 1.0
        drags = [_K1 * (1 - _B + _B * length / mean) for length in store.lengths[:first]]
        fits = [0.0] * first
        for word, weight in weights.items():
            postings = store.postings.get(word, ())
            for number, often in postings[: bisect_left(postings, (first, 0))]:
                fits[number] += weight * (often * _MOST_GAIN / (often + drags[number]))
        return fits

    def ranked(self, query: str) -> list[int]:
        """The numbers of the texts that share a word with the query, the best first; of equals the first."""
        fits = self.fits({word: self.rarity(word) for word in dict.fromkeys(words(query))}, self._length)
        return sorted((number for number, fit in enumerate(fits) if fit > 0), key=lambda number: -fits[number])
