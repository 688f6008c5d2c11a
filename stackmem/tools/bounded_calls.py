"""Calls of a stranger's functions that may take no longer than they are given.

Rule 1: whoever asks goes on when the time is over, whatever the function does.
Rule 2: a function that is too late has an exception raised in it, once: what Python executes ends there. What waits
    outside of Python ends when it returns, or with the process, which it does not keep from ending. What is importing
    a module is left to its end: an import that is broken off holds the module's lock for ever.
Rule 3: calls one after another come to one thread, as things opened in a thread may be bound to it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

_LONGEST_SECONDS = 10_000_000.0
"""The system takes no endless wait."""

_IMPORTING = "<frozen importlib._bootstrap>"
_SLICE_SECONDS = 0.2
"""Ctrl-C that comes in the moment in which a wait begins does not end that wait, but the next one."""

T = TypeVar("T")
Job = Callable[[], None]


class _TooLate(BaseException):
    """Raised in a function whose time is over."""


class _Worker:
    """A thread that does one job after the other, until one of them is too late."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._left = False
        self._thread = threading.Thread(target=self._work, name="own tool", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with suppress(_TooLate):
            while not self._left:
                self._jobs.get()()

    def do(self, job: Job) -> None:
        self._jobs.put(job)

    def leave(self) -> None:
        """Let nothing more come of the job that is under way."""
        self._left = True
        _late.append(self._thread)
        thread = self._thread.ident
        if thread is not None and not _imports(thread):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TooLate))
        self._jobs.put(lambda: None)  # where the job has ended meanwhile, the thread waits for the next one


def _imports(thread: int) -> bool:
    """Whether the thread is importing a module at this moment."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented, in spite of its name
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


_late: list[threading.Thread] = []
_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)  # a child has none of these threads


def call_within(seconds: float, call: Callable[[], T]) -> T:
    """What ``call`` returns or raises, in another thread.

    Raises:
        TimeoutError: It took longer; nobody waits for it any more.
    """
    done: SimpleQueue[T | BaseException] = SimpleQueue()

    def job() -> None:
        try:
            done.put(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            done.put(error)

    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.do(job)
    try:
        outcome = next_of(done, min(seconds, _LONGEST_SECONDS))
    except Empty:
        worker.leave()
        raise TimeoutError from None
    except BaseException:  # Ctrl-C
        worker.leave()
        raise
    _idle.append(worker)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def late_ones_run() -> bool:
    """Whether a function whose time was over still runs."""
    _late[:] = [thread for thread in _late if thread.is_alive()]
    return bool(_late)


def next_of(queue: SimpleQueue[T], seconds: float = _LONGEST_SECONDS) -> T:
    """The next thing in a queue that others fill; Ctrl-C ends the wait whenever it comes.

    Raises:
        Empty: Nothing came within so many seconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            return queue.get(timeout=max(0.0, min(_SLICE_SECONDS, left)))
        except Empty:
            if left <= _SLICE_SECONDS:
                raise
