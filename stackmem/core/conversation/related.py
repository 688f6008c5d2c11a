"""Earlier requests that may matter for a new one, chosen by the words that they share."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

from stackmem.core.log import Log
from stackmem.core.state import PoppedFrame, State
from stackmem.core.text import mark_cut

from .earlier import last_shortened, own_words, request_number
from .ranking import Index, words

_MAX_REQUESTS = 2
_TEXT_CHARS = 400
_MIN_SHARED = 2
"""Rare words that a request must share with the new one."""
_MIN_WORD_CHARS = 4
_RARE_SHARE = 0.2
"""A word is rare if at most this share of the earlier requests contains it."""


class _Indexed(Struct, frozen=True):
    index: Index
    frames: Log[PoppedFrame]


def related_requests(state: State, text: str) -> str:
    """Return earlier requests that the log shows cut or not at all, and that fit the new one. Empty if none does."""
    last = last_shortened(state)
    if not last:
        return ""
    history = state.popped.fold(_with_request, _Indexed(Index(), Log()), "requests by their words")
    count = bisect_right(range(len(history.frames)), last, key=lambda position: _number(history.frames[position]))
    terms = {word for word in words(text) if len(word) >= _MIN_WORD_CHARS}
    rare = {word: history.index.rarity(word) for word in sorted(terms) if _is_rare(history.index, word)}
    fits = history.index.fits(rare, count)
    lines: list[str] = []
    for position in sorted(range(count), key=lambda position: -fits[position]):
        if len(lines) >= 2 * _MAX_REQUESTS or not fits[position]:
            break
        frame = history.frames[position]
        if len(rare.keys() & set(words(_text(frame)))) >= _MIN_SHARED:
            number = _number(frame)
            lines.append(f"REQUEST {number}: {mark_cut(own_words(frame.frame.task), _TEXT_CHARS)}")
            lines.append(f"RESULT {number}: {mark_cut(own_words(frame.result), _TEXT_CHARS)}")
    return "\n".join(["EARLIER REQUESTS THAT MAY MATTER", *lines]) if lines else ""


def _with_request(history: _Indexed, frame: PoppedFrame) -> _Indexed:
    if not frame.frame.request:
        return history
    return _Indexed(history.index.add(_text(frame)), history.frames.append(frame))


def _text(frame: PoppedFrame) -> str:
    return f"{frame.frame.task}\n{frame.result}"


def _number(frame: PoppedFrame) -> int:
    return request_number(frame.frame)


def _is_rare(index: Index, word: str) -> bool:
    return 0 < index.count(word) <= max(1, _RARE_SHARE * len(index))
