"""One thread that starts all commands and lives as long as the process.

A sandbox with a parent-death signal dies with the *thread* that started it, so a thread that may end must not start
one. Also, Ctrl-C interrupts only the main thread, so a start in this thread is never interrupted halfway.
"""

from __future__ import annotations

import os
import queue
import threading
from _thread import start_new_thread
from collections.abc import Callable
from subprocess import Popen

Start = Callable[[], Popen[bytes]]


class StartJob:
    """One process start, requested by a thread that Ctrl-C may interrupt anywhere, and done by a thread that it cannot.

    Python's own futures, events and conditions acquire their lock in Python code. An interruption there would leave the
    lock held forever and deadlock both threads. Here, each lock is acquired by a single C call, and never twice.
    """

    def __init__(self, start: Start) -> None:
        self._start: Start | None = start
        self._claim = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()
        self._process: Popen[bytes] | None = None
        self._error: BaseException | None = None
        self._over = False

    def run(self) -> None:
        """Start the process and store it, or the exception. A job that was canceled in time never starts."""
        # The claim is never released, so exactly one of start and cancellation wins.
        if not self._claim.acquire(blocking=False):
            return
        # Dropped after use, because it refers to the descriptors of the command.
        start, self._start = self._start, None
        try:
            assert start is not None  # noqa: S101 - only the thread with the claim gets here
            self._process = start()
        except BaseException as error:  # noqa: BLE001 - raised again by ``result``
            self._error = error
        # Before the release: whoever is woken by it must already see the process or the error.
        self._over = True
        self._ended.release()

    def cancel(self) -> bool:
        """Return whether the job was still waiting; it then never starts."""
        return self._claim.acquire(blocking=False)

    def result(self, seconds: float = -1) -> Popen[bytes]:
        """Wait for the process. May be called repeatedly.

        Raises:
            TimeoutError: The process is not available after ``seconds``.
            Exception: The exception that the start raised.
        """
        if not self._over:
            # there is only one waiter, and it does not acquire the lock again later
            self._ended.acquire(timeout=seconds)
        if self._error is not None:
            raise self._error
        if self._process is None:
            raise TimeoutError
        return self._process


class _Spawner:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.jobs: queue.SimpleQueue[StartJob] = queue.SimpleQueue()
        start_new_thread(self._work, ())  # not Thread.start, which waits for an event that Ctrl-C could interrupt

    def _work(self) -> None:
        while True:
            self.jobs.get().run()


_lock = threading.Lock()
_spawner: _Spawner | None = None


def spawn(job: StartJob) -> None:
    """Start a process from the long-lived thread.

    The caller creates the job, so it can cancel or await it even if Ctrl-C interrupts this call.
    """
    global _spawner  # noqa: PLW0603 - one thread per process, created on first use
    with _lock:
        if _spawner is None or _spawner.pid != os.getpid():  # threads do not survive a fork
            _spawner = _Spawner()
        _spawner.jobs.put(job)


def spawn_confined(job: StartJob) -> None:
    """Start a process from a new thread, which first restricts itself and then ends."""
    # A new thread each time: Landlock and the filter cannot be lifted again, and end with their thread.
    start_new_thread(job.run, ())
