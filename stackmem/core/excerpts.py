"""Excerpts of a popped frame's conversation: the passages that fit a query, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from .messages import Text, ToolCall
from .ranking import best, counted
from .state import Compaction, Notice, PoppedFrame, Reply, Result, State, Turn
from .text import mark_cut

EXCERPT_CHARS = 4_000
_PASSAGE_CHARS = 400
PREFIX = "frame:"


class _Passage(Struct, frozen=True):
    source: str
    text: str


def popped_named(state: State, name: str) -> PoppedFrame | None:
    """The popped frame with this id, else the last one with this name."""
    found = [done for done in state.popped if done.frame.id == name]
    found = found or [done for done in state.popped if done.frame.name == name]
    return found[-1] if found else None


def excerpts(done: PoppedFrame, query: str, most: int = EXCERPT_CHARS) -> str:
    """In at most ``most`` characters: its result, and the passages that fit ``query``; without one, the last ones."""
    passages = [passage for turn in done.frame.turns for passage in _passages(turn)]
    ranked: Iterable[int] = range(len(passages) - 1, -1, -1)
    if query.strip():
        ranked = best(query, [counted(passage.text) for passage in passages], len(passages))
    head = f"frame {done.frame.name!r} ({done.frame.id}) returned: {mark_cut(done.result, _PASSAGE_CHARS)}"
    left = most - len(head) - 100
    chosen = []
    for place in ranked:
        length = len(_line(passages[place]))
        if length > left:
            break
        chosen.append(place)
        left -= length
    lines = [_line(passages[place]) for place in sorted(chosen)]
    told = f"[{len(chosen):,} of {len(passages):,} passages]" if chosen else "[no passage fits; try other words]"
    return "\n".join([head, told, *lines])[:most]


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
