"""Ranks texts and passages of conversations against a query by BM25 over words, with an index that grows.

Like ``Log``, an index is a view of the first ``len`` texts of a store that longer views may share. Adding to the newest
view extends the store; adding to an older one copies it first. Existing views never change.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from stackmem.core.messages import Text, ToolCall
from stackmem.core.state import Compaction, Frame, Notice, PoppedFrame, Reply, Result, Turn
from stackmem.core.text import mark_cut

EXCERPT_CHARS = 4_000
_PASSAGE_CHARS = 400
FRAME_PREFIX = "frame:"
"""Prefix of a name in ``heap_read`` that reads a conversation instead of a chunk."""
_K1, _B = 1.2, 0.75
_MAX_GAIN = _K1 + 1
"""Upper bound of what one word adds to a text's score, however often it occurs."""
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case. ``snake_case`` and paths are split into their parts."""
    return _WORD.findall(text.lower())


class _WordCounts:
    """The length of each text in words, and for each word the texts that contain it with their counts."""

    __slots__ = ("lengths", "postings")

    def __init__(self, lengths: list[int], postings: dict[str, list[tuple[int, int]]]) -> None:
        self.lengths = lengths
        self.postings = postings


class Index:
    """Texts indexed by their words, numbered from 0 in the order in which they were added."""

    __slots__ = ("_length", "_store", "_words")

    def __init__(self) -> None:
        self._store = _WordCounts([], {})
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

    def _copy(self) -> _WordCounts:
        postings = {
            word: [posting for posting in holding if posting[0] < self._length]
            for word, holding in self._store.postings.items()
        }
        return _WordCounts(
            self._store.lengths[: self._length], {word: remaining for word, remaining in postings.items() if remaining}
        )

    def count(self, word: str) -> int:
        """Return the number of texts of this view that contain the word."""
        return bisect_left(self._store.postings.get(word, ()), (self._length, 0))

    def rarity(self, word: str) -> float:
        """Return the weight of a word: the fewer texts of this view contain it, the more."""
        holding = self.count(word)
        return math.log(1 + (self._length - holding + 0.5) / (holding + 0.5))

    def holds(self, word: str, first: int) -> bool:
        """Return whether one of the ``first`` texts contains the word."""
        postings = self._store.postings.get(word)
        return postings is not None and postings[0][0] < min(first, self._length)

    def fits(self, weights: Mapping[str, float], first: int) -> list[float]:
        """Score each of the ``first`` texts for weighted words. A text without any of them scores 0.0."""
        store, first = self._store, min(first, self._length)
        mean = self._words / max(1, self._length) or 1.0
        drags = [_K1 * (1 - _B + _B * length / mean) for length in store.lengths[:first]]
        fits = [0.0] * first
        for word, weight in weights.items():
            postings = store.postings.get(word, ())
            for number, often in postings[: bisect_left(postings, (first, 0))]:
                fits[number] += weight * (often * _MAX_GAIN / (often + drags[number]))
        return fits

    def ranked(self, query: str) -> list[int]:
        """Return the numbers of the texts that share a word with the query, best first; ties in the order of their
        numbers.
        """
        fits = self.fits({word: self.rarity(word) for word in dict.fromkeys(words(query))}, self._length)
        return sorted((number for number, fit in enumerate(fits) if fit > 0), key=lambda number: -fits[number])


class _Passage(Struct, frozen=True):
    source: str
    text: str


def excerpts_of_popped(frame: PoppedFrame, query: str) -> str:
    """Return the frame's result and the passages that fit ``query``, or the last ones without a query.

    At most ``EXCERPT_CHARS`` characters.
    """
    head = f"frame {frame.frame.name!r} ({frame.frame.id}) returned: {mark_cut(frame.result, _PASSAGE_CHARS)}"
    return excerpts(frame.frame.turns, query, head)


def excerpts_of_frames(frames: list[Frame], query: str) -> str:
    """Return what fits in several conversations, each passage once, without the results of earlier searches."""
    turns = [turn for frame in frames for turn in frame.turns]
    searched = {turn.step for turn in turns if isinstance(turn, Reply) and _searches(turn)}
    candidates = (turn for turn in turns if not (isinstance(turn, Reply | Result) and turn.step in searched))
    head = f"found in {len(frames):,} other frames for {mark_cut(query, 100)!r}; newer facts count:"
    return excerpts(candidates, query, head, once=True)


def _searches(reply: Reply) -> bool:
    """Return whether the reply asks for excerpts, whose results only repeat text from elsewhere."""
    calls = (part for part in reply.parts if isinstance(part, ToolCall) and part.name == "heap_read")
    return any(
        str(call.arguments.get("name")).startswith(FRAME_PREFIX) for call in calls if isinstance(call.arguments, dict)
    )


def excerpts(turns: Iterable[Turn], query: str, head: str, *, once: bool = False) -> str:
    """Return the passages that fit best. ``once`` leaves out passages with the same words as an earlier one."""
    passages = [passage for turn in turns for passage in _passages(turn)]
    if once:
        passages = list({passage.text: passage for passage in passages}.values())
    ranked: Iterable[int] = range(len(passages) - 1, -1, -1)
    if query.strip():
        index = Index()
        for passage in passages:
            index = index.add(passage.text)
        ranked = index.ranked(query)
    remaining = EXCERPT_CHARS - len(head) - 100
    numbers = []
    for number in ranked:
        length = len(_line(passages[number]))
        if length > remaining:
            break
        numbers.append(number)
        remaining -= length
    lines = [_line(passages[number]) for number in sorted(numbers)]
    note = f"[{len(numbers):,} of {len(passages):,} passages]" if numbers else "[no passage matches; try other words]"
    return "\n".join([head, note, *lines])[:EXCERPT_CHARS]


def _line(passage: _Passage) -> str:
    return f"--- {passage.source}\n{passage.text}"


def _passages(turn: Turn) -> Iterator[_Passage]:
    match turn:
        case Reply():
            for part in turn.parts:
                if isinstance(part, Text):
                    yield from _cut(f"step {turn.step}, said", part.text)
                elif isinstance(part, ToolCall):
                    yield from _cut(f"step {turn.step}, called {part.name[:80]}", _argument_text(part))
        case Result():
            yield from _cut(f"step {turn.step}, result", turn.text)
        case Notice():
            yield from _cut("told", turn.text)
        case Compaction():
            yield from _cut(f"step {turn.step}, summary", turn.text)


def _argument_text(call: ToolCall) -> str:
    if isinstance(call.arguments, dict):
        return "\n".join(f"{name}: {value}" for name, value in call.arguments.items())
    return call.malformed or str(call.arguments)


def _cut(source: str, text: str) -> Iterator[_Passage]:
    """Cut a text into passages of whole lines. A line that is too long is split."""
    passage = ""
    for line in text.splitlines():
        for start in range(0, max(1, len(line)), _PASSAGE_CHARS):
            piece = line[start : start + _PASSAGE_CHARS]
            if passage and len(passage) + len(piece) >= _PASSAGE_CHARS:
                yield _Passage(source, passage)
                passage = ""
            passage = f"{passage}\n{piece}" if passage else piece
    if passage.strip():
        yield _Passage(source, passage)
