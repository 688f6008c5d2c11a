"""Shows how far long work is: a bar with the time to go on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stackmem.cli.screen.text import say, spell_seconds
from stackmem.trace.long_work import watched_work

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_SHOWN_AFTER_SECONDS = 0.5  # shorter work shows nothing
_LINE_SECONDS = 10.0
_BAR_CELLS = 20


@contextmanager
def shown_work() -> Iterator[None]:
    """Show the progress of the work inside on stderr. Nothing of it stays on a terminal."""
    screen = _WorkBar() if sys.stderr is not None and sys.stderr.isatty() else _WorkLines()
    try:
        with watched_work(screen.report):
            yield
    finally:
        screen.close()


class _WorkLines:
    """Prints a line every ten seconds."""

    def __init__(self) -> None:
        self._started_at = self._printed = time.monotonic()
        self._work = ""

    def report(self, work: str, done: int, total: int) -> None:
        now = time.monotonic()
        if work != self._work:
            self._work, self._started_at = work, now
        if now - self._printed < _LINE_SECONDS:
            return
        self._printed = now
        say(line_of(work, done, total, now - self._started_at))

    def close(self) -> None:
        pass


def line_of(work: str, done: int, total: int, seconds: float) -> str:
    """Return one line of progress, such as ``reading recordings: 120 of 400, 12 s, about 28 s to go``."""
    if not total:
        return f"{work}: {done:,}, {spell_seconds(seconds)}"
    remaining = f", about {spell_seconds(seconds / done * (total - done))} to go" if 0 < done < total else ""
    return f"{work}: {done:,} of {total:,}, {spell_seconds(seconds)}{remaining}"


class _WorkBar:
    """Shows a bar, which is redrawn in place and removed at the end."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._work = ""

    def report(self, work: str, done: int, total: int) -> None:
        if self._progress is None:
            if time.monotonic() - self._started_at < _SHOWN_AFTER_SECONDS:
                return
            self._progress = _bar()
            self._progress.start()
        if self._task is None or work != self._work:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._work, self._task = work, self._progress.add_task(work, total=total or None)
        self._progress.update(self._task, completed=done, total=total or None)

    def close(self) -> None:
        if self._progress is not None:
            with suppress(OSError):
                self._progress.stop()


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(_BAR_CELLS),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("to go"),
        TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False, markup=False),
        transient=True,
    )
