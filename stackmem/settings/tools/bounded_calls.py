"""Calls third-party functions with a time limit.

Rule 1: The caller continues when the time is over, whatever the function does.
Rule 2: In a function that exceeds its time, an exception is raised once, which ends Python code. Code that blocks
    outside of Python ends when it returns, or with the process, which it does not keep alive. A thread that is
    importing a module is left alone: an aborted import would hold the module's lock forever.
Rule 3: Consecutive calls run in the same thread, because objects opened in a thread may be bound to it.
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

_MAX_SECONDS = 10_000_000.0
"""The operating system does not accept an infinite wait."""

_IMPORTING = "<frozen importlib._bootstrap>"
_SLICE_SECONDS = 0.2
"""Waits are split into slices, because a Ctrl-C at the very start of a wait only takes effect at the next one."""

T = TypeVar("T")
Job = Callable[[], None]


class _TooLate(BaseException):
    """Raised in a function whose time is over."""


class _Worker:
    """A thread that runs jobs one after another, until one exceeds its time."""

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
        """Abandon the current job and the thread."""
        self._left = True
        _late.append(self._thread)
        thread = self._thread.ident
        if thread is not None and not _imports(thread):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TooLate))
        self._jobs.put(lambda: None)  # wakes the thread if the job has ended in the meantime


def _imports(thread: int) -> bool:
    """Return whether the thread is currently importing a module."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented, despite its name
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


_late: list[threading.Thread] = []
_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)  # a forked child has none of these threads


def call_within(seconds: float, call: Callable[[], T]) -> T:
    """Run ``call`` in another thread and return its result or raise its exception.

    Raise TimeoutError if it took longer and was abandoned.
    """
    done: SimpleQueue[T | BaseException] = SimpleQueue()

    def job() -> None:
        try:
            done.put(call())
        except BaseException as error:  # noqa: BLE001 - re-raised in the waiting thread
            done.put(error)

    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.do(job)
    try:
        outcome = next_of(done, min(seconds, _MAX_SECONDS))
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
    """Return whether an abandoned function is still running."""
    _late[:] = [thread for thread in _late if thread.is_alive()]
    return bool(_late)


def next_of(queue: SimpleQueue[T], seconds: float = _MAX_SECONDS) -> T:
    """Return the next item of a queue that other threads fill. Ctrl-C always ends the wait.

    Raise Empty if nothing arrived within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        remaining = deadline - time.monotonic()
        try:
            return queue.get(timeout=max(0.0, min(_SLICE_SECONDS, remaining)))
        except Empty:
            if remaining <= _SLICE_SECONDS:
                raise
