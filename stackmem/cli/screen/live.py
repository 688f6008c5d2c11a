"""Shows a run while it happens: lines above, and on a terminal one line of status below that stays."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from stackmem.core.facts import Event
from stackmem.core.state import State
from stackmem.errors import TraceError
from stackmem.run.request import read_request

from .progress import Progress, status

if TYPE_CHECKING:
    from rich.live import Live


class Screen(Protocol):
    def __call__(self, event: Event, state: State) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


class PlainScreen:
    """Lines on stderr; nothing at all where ``quiet``. A run goes on where they cannot be written."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._progress = Progress()

    def __call__(self, event: Event, state: State) -> None:
        if not self._quiet:
            for line in self._progress.lines(event, state):
                with suppress(OSError):
                    print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is the screen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass


class LiveScreen:
    """Lines, and below them where the run stands."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._live: Live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._progress = Progress()

    def __call__(self, event: Event, state: State) -> None:
        from rich.text import Text

        for line in self._progress.lines(event, state):
            self._console.print(Text(line))
        if state.start is not None:
            self._live.update(Text(status(state), style="bold"))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()


def open_screen(*, quiet: bool, asks: bool) -> Screen:
    """The screen that fits: live on a terminal, plain lines elsewhere and where the person is the model."""
    if quiet or asks or not sys.stderr.isatty():
        return PlainScreen(quiet=quiet)
    return LiveScreen()


def is_played_by_person(run_dir: Path, model: str | None = None) -> bool:
    """Whether a person is the model of a run that goes on, and needs the screen for herself."""
    try:
        return (model or read_request(run_dir).flags.get("model")) == "human"
    except TraceError:  # said by what needs it more
        return False


def stop_at_once(code: int) -> None:
    """End the program as it stands, but give a terminal its cursor back."""
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")
    os._exit(code)
