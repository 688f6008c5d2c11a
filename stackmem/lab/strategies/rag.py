"""``rag:K,M``: the task, the last K turns, and the M passages of older turns that fit the last step best, by BM25.

Older results are cut into passages of whole lines, at most ``chars`` characters each, so that one page of a long
document can come back without the rest. The query consists of the last text and call, and of the head and tail of the
answer. Text that is shown anyway is left out. If several passages have the same text, only the newest is shown.

The last turns stay in place and leave K at a time, so K to 2K - 1 turns are shown. The passages are at the end of the
prompt, after the last breakpoint, because they change at every step.

Parameters: ``turns`` (5), ``passages`` (5), ``chars`` (1,000).

Source: retrieval-augmented generation over the agent's own history; Robertson and Zaragoza (2009) for the ranking.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest

from msgspec import Struct

from stackmem.core.conversation.ranking import Index, words
from stackmem.core.log import Log
from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.core.state import State
from stackmem.core.text import clip_chars
from stackmem.memory.shared.linear import Exchange, Linear, OneConversation, Rules, left_out, newest_shown
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

from .transcript import message_text, spoken_part

_SAID_CHARS, _TOLD_CHARS = 2_000, 800
_SAID_COUNTS = 3  # outputs are long and noisy; text and calls show better what is needed
QUERY_WORDS = 48
"""Number of words that are looked up: those with the highest weight in the query."""
_RANKED = 3  # how many times more passages are ranked than shown, because equal passages are shown only once


class OldPassage(Struct, frozen=True):
    """Some lines of an old turn."""

    turn: int  # number of its exchange
    source: str  # heading under which it is shown
    text: str


class Passages(Struct, frozen=True):
    """Everything that can be found. The index numbers the passages in order."""

    chars: int  # maximum characters of a passage
    passages: Log[OldPassage]
    index: Index


def retrieve(most: int, chars: int, state: State, view: Linear) -> str:
    """Return the passages that fit, in their original order. Empty if none does."""
    if not view.cut.dropped:
        return ""
    store = view.past.fold(_with_passages, Passages(chars, Log(), Index()), chars)
    last = view.past[-1]
    query = f"{message_text(last.said)[-_SAID_CHARS:]}\n" * _SAID_COUNTS + clip_chars(
        message_text(last.told), _TOLD_CHARS
    )
    old = bisect_left(store.passages, view.cut.dropped, key=lambda passage: passage.turn)
    ranked = best(store.index, query, old, _RANKED * most)
    newest = {store.passages[number].text: number for number in sorted(ranked)}
    visible = {passage.text for passage in store.passages[old:]}
    numbers = [
        number for number in ranked if (text := store.passages[number].text) not in visible and newest[text] == number
    ]
    if not numbers:
        return ""
    passages = [store.passages[number] for number in sorted(numbers[:most])]
    blocks = [f"--- {passage.source}\n{passage.text}" for passage in passages]
    return "\n".join(["FROM EARLIER STEPS, found by the words of the last one; newer facts count:", *blocks])


def _with_passages(store: Passages, exchange: Exchange) -> Passages:
    passages, index = store.passages, store.index
    turn = passages[-1].turn + 1 if len(passages) else 0
    for source, text in _pieces(exchange, store.chars):
        passages = passages.append(OldPassage(turn, source, text))
        index = index.add(f"{source}\n{text}")
    return Passages(store.chars, passages, index)


def best(index: Index, query: str, first: int, most: int) -> list[int]:
    """Return the numbers of the best of the ``first`` texts, best first; of ties the newer comes first.

    A word counts as often as it occurs in the query. Texts that share no word with the query are left out.
    """
    counts = Counter(words(query))
    weights = {word: often * index.rarity(word) for word, often in counts.items() if index.holds(word, first)}
    heaviest = sorted(weights, key=weights.__getitem__, reverse=True)[:QUERY_WORDS]
    fits = index.fits({word: weights[word] for word in heaviest}, first)
    fitting = [number for number, fit in enumerate(fits) if fit > 0]
    return nsmallest(most, fitting, key=lambda number: (-fits[number], -number))


def _pieces(exchange: Exchange, most: int) -> Iterator[tuple[str, str]]:
    """Yield the answers in pieces of whole lines, the first with the call before it. There is at least one piece."""
    calls = [part for part in exchange.said.parts if isinstance(part, ToolCall)]
    source = f"step {exchange.step}" + (f", {calls[0].name}" if calls else "")
    head = "\n".join(map(spoken_part, calls)) or message_text(exchange.said)
    answers = [part.text for part in exchange.told.parts if isinstance(part, ToolResult | Text)]
    yield from ((source, piece) for piece in pieces("\n".join([head[: most // 4], *answers]), most))


def pieces(text: str, most: int) -> Iterator[str]:
    """Yield ``text`` in pieces of whole lines that fit. A line that is too long is split."""
    piece = ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > most:
            yield piece
            piece = ""
        cut = len(line) - len(line) % most if len(line) > most else 0
        yield from (line[start : start + most] for start in range(0, cut, most))
        piece += line[cut:]
    if piece.strip():
        yield piece


def rag(parameters: str) -> OneConversation:
    parsed = parse("rag", parameters, (Count("turns", 5), Count("passages", 5), Count("chars", 1_000, low=100)))
    keep, passages, chars = parsed.counts.values()
    rules = Rules(Partial(newest_shown, (keep, keep)), left_out)
    return OneConversation(parsed.name, rules, tail=Partial(retrieve, (passages, chars)))
