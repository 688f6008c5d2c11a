"""The words of a reply as they stream in, for whoever wants to show them; the reply itself is what counts.

Before the first word, llama.cpp says how much of the prompt it has read.

Words of a reply that fails or breaks off were heard all the same: who shows them takes them back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Hear = Callable[[str], object]

Progress = Callable[[int, int], object]
"""Takes the prompt tokens that were read, and all of them."""

_LISTENER: ContextVar[Hear | None] = ContextVar("listener", default=None)

_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def watching(show: Progress) -> Iterator[None]:
    """Within this, ``show`` is told how much of the prompt the server has read, if the server says so."""
    token = _PROGRESS.set(show)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


@contextmanager
def listening(hear: Hear) -> Iterator[None]:
    """Within this, the words of every reply that this thread asks for are told to ``hear``, piece by piece."""
    token = _LISTENER.set(hear)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(words: str) -> None:
    """Words of a reply, from a reader whose SDK gives it no events."""
    if words and (hear := _LISTENER.get()) is not None:
        hear(words)


def overheard(events: Iterable[str], passed_on: Callable[[str], str] | None = None) -> Iterable[str]:
    """The same events. If somebody listens, their words are passed to the listener."""
    hear, show = _LISTENER.get(), _PROGRESS.get()
    return events if hear is None and show is None else _telling(events, hear, show, passed_on)


def _telling(
    events: Iterable[str], hear: Hear | None, show: Progress | None, passed_on: Callable[[str], str] | None
) -> Iterator[str]:
    for event in events:
        if show is not None and (read := progress_of(event)) is not None:
            show(*read)
        if hear is not None and (words := words_of(event)):
            shown = words if passed_on is None else passed_on(words)
            if shown:
                hear(shown)
        yield event


def progress_of(event: str) -> tuple[int, int] | None:
    """The prompt tokens that llama.cpp has read and all of them; None if the event does not say so."""
    if '"prompt_progress"' not in event:
        return None
    try:
        value: Any = json.loads(event)["prompt_progress"]
        read, total = value["processed"], value["total"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (read, total) if type(read) is type(total) is int and 0 <= read <= total else None


def words_of(event: str) -> str:
    """The text that a streamed event adds to a reply, in any of the three protocols; empty where it adds none."""
    if '"delta"' not in event:
        return ""
    try:
        value: Any = json.loads(event)
        if value.get("choices"):
            text = value["choices"][0]["delta"].get("content")
        elif value.get("type") == "response.output_text.delta":
            text = value["delta"]
        else:
            text = value["delta"].get("text")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return ""  # who reads the reply says what is wrong with it
    return text if isinstance(text, str) else ""
