"""Ctrl-C, SIGTERM and a closed terminal: the first ends the run in good order, the second at once; and the end of time.

A signal interrupts only what the world is asked to do; a fact that is being written is written whole.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from stackmem.errors import WorkspaceError, way_out


class OutOfTime(KeyboardInterrupt):
    """The run's seconds are over."""


class Interrupts:
    """Owns SIGINT, SIGTERM, SIGHUP and SIGALRM while it is entered; does nothing outside the main thread.

    SIGHUP stays ignored where it was, as under nohup.
    """

    def __init__(self, stop: Callable[[int], Any] = os._exit) -> None:
        self.signal = 0  # the signal that came, 0 before one
        self.out_of_time = False  # whether the run's seconds are over
        self.open = False  # whether a signal raises ``KeyboardInterrupt`` now, and the end of the seconds ``OutOfTime``
        self._stop = stop
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self._came)
            if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
                del handlers[signal.SIGHUP]
            handlers[signal.SIGALRM] = self._time_is_up
            self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end_after(None)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def end_after(self, seconds: float | None) -> None:
        """Interrupt what the world is asked to do once so many seconds have passed; None takes that back."""
        self.out_of_time = seconds is not None and seconds <= 0
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, max(0.0, seconds or 0.0))

    def take_back(self) -> bool:
        """Forget a Ctrl-C, where it was one: it interrupted what was under way, and the run goes on."""
        if self.signal != signal.SIGINT:
            return False
        self.signal = 0
        return True

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A stretch that a signal may interrupt with ``KeyboardInterrupt``; also one that came before it."""
        self.open = True
        try:
            if self.signal:
                raise KeyboardInterrupt
            yield
        finally:
            self.open = False

    @contextmanager
    def setting_up(self, what: str, scratch: Path) -> Iterator[None]:
        """``allowed``, while what a run needs is made."""
        try:
            with self.allowed():
                yield
        except KeyboardInterrupt:
            if self.signal != signal.SIGINT:
                raise SystemExit(128 + self.signal) from None
            raise
        except OSError as error:
            place = error.filename or scratch
            raise WorkspaceError(
                f"the {what} cannot be set up at {place} ({error.strerror}); {way_out(error)}"
            ) from error

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            self._stop(128 + number)
        self.signal = number
        if self.open:
            self.open = False  # what cleans up behind the interruption is not interrupted again
            raise KeyboardInterrupt

    def _time_is_up(self, number: int, frame: FrameType | None) -> None:
        self.out_of_time = True
        if self.open:
            self.open = False
            raise OutOfTime
