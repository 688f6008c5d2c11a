"""Handles Ctrl-C, SIGTERM, SIGHUP and the time limit. The first signal ends the run cleanly, the second immediately.

Signals interrupt only calls to the outside world. An event that is being written is always written completely.
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

from stackmem.core.errors import WorkspaceError, way_out


class OutOfTime(KeyboardInterrupt):
    """The run's time limit has expired."""


class Interrupts:
    """Handles SIGINT, SIGTERM, SIGHUP and SIGALRM while entered; does nothing outside the main thread.

    SIGHUP stays ignored if it was ignored before, as under nohup.
    """

    def __init__(self, stop: Callable[[int], Any] = os._exit) -> None:
        self.signal = 0  # the received signal, 0 if none
        self.out_of_time = False  # whether the time limit has expired
        self.open = False  # whether a signal now raises ``KeyboardInterrupt``, and the time limit ``OutOfTime``
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
        """Interrupt calls to the outside world after ``seconds``. None cancels the timer."""
        self.out_of_time = seconds is not None and seconds <= 0
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, max(0.0, seconds or 0.0))

    def take_back(self) -> bool:
        """Clear a Ctrl-C so that the run continues. Return False for any other signal."""
        if self.signal != signal.SIGINT:
            return False
        self.signal = 0
        return True

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let signals raise ``KeyboardInterrupt`` inside this block, including a signal that arrived earlier."""
        self.open = True
        try:
            if self.signal:
                raise KeyboardInterrupt
            yield
        finally:
            self.open = False

    @contextmanager
    def setting_up(self, subject: str, scratch: Path) -> Iterator[None]:
        """Like ``allowed``, with error handling for the setup of a run.

        Raise WorkspaceError if disk space or permissions are missing, and KeyboardInterrupt if Ctrl-C came (SIGTERM and
        SIGHUP: ``SystemExit``).

        Args:
            subject: What is set up, for messages: the run, the fork.
            scratch: The folder for an error that does not name a file.
        """
        try:
            with self.allowed():
                yield
        except KeyboardInterrupt:
            if self.signal != signal.SIGINT:
                raise SystemExit(128 + self.signal) from None
            raise
        except OSError as error:
            path = error.filename or scratch
            raise WorkspaceError(
                f"the {subject} cannot be set up at {path} ({error.strerror}); {way_out(error)}"
            ) from error

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            self._stop(128 + number)
        self.signal = number
        if self.open:
            self.open = False  # so that the cleanup after this interruption is not interrupted too
            raise KeyboardInterrupt

    def _time_is_up(self, number: int, frame: FrameType | None) -> None:
        self.out_of_time = True
        if self.open:
            self.open = False
            raise OutOfTime
