"""Streams the text of replies to a listener while they arrive; the final reply is what counts.

Before the first text, llama.cpp reports how much of the prompt it has read. If a reply fails or breaks off, the
listener has already received part of it and must discard it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Hear = Callable[[str], object]

Progress = Callable[[int, int], object]
"""Receives the number of prompt tokens read so far, and the total."""

_LISTENER: ContextVar[Hear | None] = ContextVar("listener", default=None)

_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def watching(show: Progress) -> Iterator[None]:
    """Call ``show`` with the server's progress in reading prompts, if it reports any, while the block lasts."""
    token = _PROGRESS.set(show)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


@contextmanager
def listening(hear: Hear) -> Iterator[None]:
    """Pass the text of replies in this thread to ``hear``, piece by piece, while the block lasts."""
    token = _LISTENER.set(hear)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(words: str) -> None:
    """Pass text to the listener, for readers whose SDK provides no events."""
    if words and (hear := _LISTENER.get()) is not None:
        hear(words)


def overheard(events: Iterable[str], passed_on: Callable[[str], str] | None = None) -> Iterable[str]:
    """Return the events unchanged; a listener also receives their text."""
    hear, show = _LISTENER.get(), _PROGRESS.get()
    return events if hear is None and show is None else _telling(events, hear, show, passed_on)


def _telling(
    events: Iterable[str], hear: Hear | None, show: Progress | None, passed_on: Callable[[str], str] | None
) -> Iterator[str]:
    for event in events:
        if show is not None and (read := progress_of(event)) is not None:
            show(*read)
        if hear is not None and (words := words_of(event)):
            text = words if passed_on is None else passed_on(words)
            if text:
                hear(text)
        yield event


def progress_of(event: str) -> tuple[int, int] | None:
    """Return the prompt tokens that llama.cpp has read, and the total; None if the event does not contain them."""
    if '"prompt_progress"' not in event:
        return None
    try:
        value: Any = json.loads(event)["prompt_progress"]
        read, total = value["processed"], value["total"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (read, total) if type(read) is type(total) is int and 0 <= read <= total else None


def words_of(event: str) -> str:
    """Return the text that an event adds to a reply, in any of the three protocols; empty if none."""
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
        return ""  # the reader of the reply reports the error
    return text if isinstance(text, str) else ""
