"""An index that grows with a conversation, for BM25 without reading every text at every step.

Like ``Log``, an index is a view of the first ``len`` texts of a store that it may share with longer ones; adding to
the newest view extends the store, adding to an older one copies it first. What anyone holds never changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from heapq import nsmallest

from stackmem.core.ranking import MOST_GAIN, drag, rarity, words

QUERY_WORDS = 48
"""A query is as good as the words that weigh most in it; so many of them are looked up."""


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
        store = self._store if len(self._store.lengths) == self._length else self._copied()
        counted = Counter(words(text))
        store.lengths.append(counted.total())
        for word, often in counted.items():
            store.postings.setdefault(word, []).append((self._length, often))
        longer = Index()
        longer._store, longer._length, longer._words = store, self._length + 1, self._words + counted.total()
        return longer

    def _copied(self) -> _Store:
        kept = {
            word: [posting for posting in held if posting[0] < self._length]
            for word, held in self._store.postings.items()
        }
        return _Store(self._store.lengths[: self._length], {word: held for word, held in kept.items() if held})

    def best(self, query: str, first: int, most: int) -> list[int]:
        """Of the ``first`` texts, the numbers of those that fit best, best first; of equals the newer.

        A word counts as often as it stands in the query. None that shares no word with the query is among them.
        """
        store, first = self._store, min(first, self._length)
        mean = self._words / max(1, self._length) or 1.0
        weights = {
            word: asked * rarity(self._length, self._holding(word))
            for word, asked in Counter(words(query)).items()
            if word in store.postings and store.postings[word][0][0] < first
        }
        drags = [drag(length, mean) for length in store.lengths[:first]]
        fits = [0.0] * first
        for word in sorted(weights, key=weights.__getitem__, reverse=True)[:QUERY_WORDS]:
            weight, held = weights[word], store.postings[word]
            # What ``saturation`` says, spelled out: the next two lines are most of the work of a run under ``rag``.
            for number, often in held[: bisect_left(held, (first, 0))]:
                fits[number] += weight * (often * MOST_GAIN / (often + drags[number]))
        found = [number for number, fit in enumerate(fits) if fit > 0]
        return nsmallest(most, found, key=lambda number: (-fits[number], -number))

    def _holding(self, word: str) -> int:
        """How many texts of this view hold the word; longer views of the same store may have more."""
        return bisect_left(self._store.postings.get(word, ()), (self._length, 0))
