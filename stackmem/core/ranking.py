"""Which texts, and which passages of conversations, fit a query best: BM25 over words, by an index that grows.

Like ``Log``, an index is a view of the first ``len`` texts of a store that it may share with longer ones; adding to
the newest view extends the store, adding to an older one copies it first. What anyone holds never changes.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), k1 = 1.2, b = 0.75.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from .messages import Text, ToolCall
from .state import Compaction, Frame, Notice, PoppedFrame, Reply, Result, Turn
from .text import mark_cut

EXCERPT_CHARS = 4_000
_PASSAGE_CHARS = 400
FRAME_PREFIX = "frame:"
"""How a call of ``heap_read`` begins its name that asks for a conversation and not for a chunk."""
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


class _Passage(Struct, frozen=True):
    source: str
    text: str


def excerpts_of_popped(done: PoppedFrame, query: str) -> str:
    """Its result, and the passages that fit ``query``; without one, the last ones. At most ``EXCERPT_CHARS``."""
    head = f"frame {done.frame.name!r} ({done.frame.id}) returned: {mark_cut(done.result, _PASSAGE_CHARS)}"
    return excerpts(done.frame.turns, query, head)


def excerpts_of_frames(frames: list[Frame], query: str) -> str:
    """What fits in several conversations, each passage once, and what earlier searches showed not again."""
    turns = [turn for frame in frames for turn in frame.turns]
    searched = {turn.step for turn in turns if isinstance(turn, Reply) and _searches(turn)}
    told = (turn for turn in turns if not (isinstance(turn, Reply | Result) and turn.step in searched))
    head = f"found in {len(frames):,} other frames for {mark_cut(query, 100)!r}; newer facts hold:"
    return excerpts(told, query, head, once=True)


def _searches(reply: Reply) -> bool:
    """Whether it asks for excerpts: those say again what stands elsewhere."""
    calls = (part for part in reply.parts if isinstance(part, ToolCall) and part.name == "heap_read")
    return any(
        str(call.arguments.get("name")).startswith(FRAME_PREFIX) for call in calls if isinstance(call.arguments, dict)
    )


def excerpts(turns: Iterable[Turn], query: str, head: str, *, once: bool = False) -> str:
    """The passages that fit best; ``once`` leaves out those that were said before in the same words."""
    passages = [passage for turn in turns for passage in _passages(turn)]
    if once:
        passages = list({passage.text: passage for passage in passages}.values())
    ranked: Iterable[int] = range(len(passages) - 1, -1, -1)
    if query.strip():
        known = Index()
        for passage in passages:
            known = known.add(passage.text)
        ranked = known.ranked(query)
    left = EXCERPT_CHARS - len(head) - 100
    chosen = []
    for place in ranked:
        length = len(_line(passages[place]))
        if length > left:
            break
        chosen.append(place)
        left -= length
    lines = [_line(passages[place]) for place in sorted(chosen)]
    note = f"[{len(chosen):,} of {len(passages):,} passages]" if chosen else "[no passage fits; try other words]"
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
                    yield from _cut(f"step {turn.step}, called {part.name[:80]}", _given(part))
        case Result():
            yield from _cut(f"step {turn.step}, result", turn.text)
        case Notice():
            yield from _cut("told", turn.text)
        case Compaction():
            yield from _cut(f"step {turn.step}, summary", turn.text)


def _given(call: ToolCall) -> str:
    if isinstance(call.arguments, dict):
        return "\n".join(f"{name}: {value}" for name, value in call.arguments.items())
    return call.malformed or str(call.arguments)


def _cut(source: str, text: str) -> Iterator[_Passage]:
    """Whole lines together as far as they fit; a longer line is cut up."""
    held = ""
    for line in text.splitlines():
        for start in range(0, max(1, len(line)), _PASSAGE_CHARS):
            piece = line[start : start + _PASSAGE_CHARS]
            if held and len(held) + len(piece) >= _PASSAGE_CHARS:
                yield _Passage(source, held)
                held = ""
            held = f"{held}\n{piece}" if held else piece
    if held.strip():
        yield _Passage(source, held)
