"""Shows a run while it happens: lines, and on a terminal a status line below them."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from stackmem.core.errors import TraceError
from stackmem.core.facts import Event, ModelReplied, RunEnded, RunStarted
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.run.stored_request import read_request

from .frames import FrameBoard, FrameNews
from .progress import Progress, status
from .text import fitted, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stackmem.run.opened import ObserveReading


class Screen(AbstractContextManager["Screen"], Protocol):
    def __call__(self, event: Event, state: State) -> None: ...

    def observe_frame(self, name: str, news: FrameNews, state: State) -> None:
        """Show what happened in a parallel frame. Called from the frame's thread."""

    @property
    def observe_reading(self) -> ObserveReading | None:
        """Shows how much of the prompt the server has read; None if the screen does not show it."""


class PlainLines(AbstractContextManager[Any]):
    """Prints lines to stderr, or nothing if ``quiet``; write errors are ignored."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def _say(self, line: str) -> None:
        if not self._quiet:
            say(line)

    def __exit__(self, *error: object) -> None:
        pass


class LiveLines(AbstractContextManager[Any]):
    """Prints lines on a terminal, above a part that stays."""

    def __init__(self, *, a_second: int, soft_wrap: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=soft_wrap)
        self._live = Live(console=self._console, refresh_per_second=a_second, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


class PlainScreen(PlainLines):
    """Prints a line for each step."""

    observe_reading: ObserveReading | None = None

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._progress = Progress()
        self._board = FrameBoard()

    def __call__(self, event: Event, state: State) -> None:
        self._board.observe(event, state)
        for line in self._progress.lines(event, state):
            self._say(line)

    def observe_frame(self, name: str, news: FrameNews, state: State) -> None:
        """Print a line for each step of the frame, and its steps and time at the end."""
        if isinstance(news, AskPermission | AskUser):
            return  # nobody is asked
        line = self._board.observe_frame(name, news, state)
        if line is not None:
            ended = [f"{'':>6}{line.sentence(self._board.clock())}"] if isinstance(news, RunEnded) else []
            for each in [*line.printed, *ended]:
                self._say(each)


class LiveScreen(LiveLines):
    """Prints lines above a status line."""

    def __init__(self) -> None:
        super().__init__(a_second=8, soft_wrap=True)
        self._progress = Progress()
        self._board = FrameBoard()
        self._status = self._reading_text = self._call = ""
        self._called = time.monotonic()
        self._live.update(self)

    def __call__(self, event: Event, state: State) -> None:
        from rich.text import Text

        width = self._console.width
        self._board.observe(event, state)
        for line in self._progress.lines(event, state):
            if isinstance(event, RunStarted):
                lines = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
            else:
                lines = [fitted(line, width)]
            for part in lines:
                self._console.print(Text(part))
        self._call, self._called = self._progress.call if isinstance(event, ModelReplied) else "", time.monotonic()
        if state.start is not None:
            self._status = status(state, width - 1)
            self._live.refresh()

    def observe_frame(self, name: str, news: FrameNews, state: State) -> None:
        if not isinstance(news, AskPermission | AskUser):  # nobody is asked
            self._board.observe_frame(name, news, state)

    def __rich__(self) -> RenderableType:
        """Return the lines of parallel frames and the status line, each time they are drawn.

        A command under way comes first in the status line, with its seconds.
        """
        from rich.text import Text

        width = self._console.width - 1
        seconds = time.monotonic() - self._called
        under_way = ""
        if self._call and seconds >= 1:
            under_way = f"{fitted(self._call, width // 2)}, {seconds:.0f} s | "
        rows = self._board.rows(width, self._console.height // 2)
        line = fitted(f"{under_way}{self._status}{self._reading_text}", width)
        return Text.assemble("".join(f"{row}\n" for row in rows), (line, "bold"))

    def observe_reading(self, read: int, total: int) -> None:
        """Show how much of the prompt the server has read, so that a slow first token does not look frozen."""
        self._reading_text = f" | reading the prompt: {read:,} of {total:,} tokens" if read < total else ""
        self._live.refresh()


def open_screen(*, quiet: bool, asks: bool) -> Screen:
    """Open a live screen on a terminal; plain lines otherwise, or if the user plays the model."""
    if quiet or asks or not sys.stderr.isatty():
        return PlainScreen(quiet=quiet)
    return LiveScreen()


def is_played_by_person(run_dir: Path, model: str | None = None) -> bool:
    """Return whether the user plays the model of a continued run, and so needs the screen."""
    try:
        return (model or read_request(run_dir).flags.get("model")) == "human"
    except TraceError:  # reported later by the code that needs the file
        return False


def stop_at_once(code: int) -> None:
    """End the process immediately, but restore the terminal's cursor."""
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")
    os._exit(code)
