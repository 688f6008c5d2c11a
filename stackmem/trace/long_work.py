"""Reports how far long work is, to the command that watches it. Without a watcher, a report costs nothing.

Work reports from the thread and process of its command; what other threads or processes do is reported by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

Item = TypeVar("Item")
Argument = TypeVar("Argument")
Result = TypeVar("Result")
Watcher = Callable[[str, int, int], None]
"""Receives what is done ("reading the trace"), how much of it is done, and the total; 0 if the total is unknown."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_work(watcher: Watcher) -> Iterator[None]:
    """Send all reports to ``watcher``."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def report_work(work: str, done: int, total: int) -> None:
    """Report how far the work is."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(work, done, total)


def unwatched(function: Callable[[Argument], Result], argument: Argument) -> Result:
    """Call a function as part of larger work, so that its own reports are not shown."""

    def call() -> Result:
        _watcher.set(None)
        return function(argument)

    return copy_context().run(call)


def counted(items: Iterable[Item], work: str) -> Iterator[Item]:
    """Yield the items, and report every hundredth."""
    for number, item in enumerate(items):
        if number % 100 == 0:
            report_work(work, number, 0)
        yield item


def tracked(items: Sequence[Item], work: str) -> Iterator[Item]:
    """Yield the items, and report each one after it was used."""
    for number, item in enumerate(items):
        report_work(work, number, len(items))
        yield item
    report_work(work, len(items), len(items))
