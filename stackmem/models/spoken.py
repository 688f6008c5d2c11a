"""The words of a reply as they stream in, for whoever wants to show them; the reply itself is what counts.

Words of a reply that fails or breaks off were heard all the same: who shows them takes them back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Hear = Callable[[str], object]

_LISTENER: ContextVar[Hear | None] = ContextVar("listener", default=None)


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
    """The same events. If somebody listens, their words are passed to the listener.

    Args:
        passed_on: Which words the listener may have now, when these came; all without it.
    """
    hear = _LISTENER.get()
    return events if hear is None else _telling(events, hear, passed_on)


def _telling(events: Iterable[str], hear: Hear, passed_on: Callable[[str], str] | None) -> Iterator[str]:
    for event in events:
        if words := words_of(event):
            shown = words if passed_on is None else passed_on(words)
            if shown:
                hear(shown)
        yield event


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
