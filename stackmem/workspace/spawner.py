"""One thread that starts every command and lives as long as the program.

A sandbox asked to die with its parent dies with the *thread* that started it, so a thread that ends must not start
one. And Ctrl-C interrupts the main thread only: a start that runs here is always whole.
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
    """One start, asked for by a thread that Ctrl-C may interrupt anywhere, done by one that it does not.

    Python's own futures, events and conditions take their lock in Python code: an interruption there leaves it taken
    for good, and both threads stand still. Here each lock is taken by one call of C code, and none is needed twice.
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
        """Call the start and keep its process, or what it raised; a job that was canceled in time never starts."""
        if not self._claim.acquire(blocking=False):
            return
        start, self._start = self._start, None
        try:
            assert start is not None  # noqa: S101 - one thread has the claim, and this is the only place
            self._process = start()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            self._error = error
        self._over = True
        self._ended.release()

    def cancel(self) -> bool:
        """Whether the job had not begun; it never will."""
        return self._claim.acquire(blocking=False)

    def result(self, seconds: float = -1) -> Popen[bytes]:
        """Wait for the process, as often as need be."""
        if not self._over:
            self._ended.acquire(timeout=seconds)  # nobody else waits, and once it is over nobody takes it again
        if self._error is not None:
            raise self._error
        if self._process is None:
            raise TimeoutError
        return self._process


class _Spawner:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.jobs: queue.SimpleQueue[StartJob] = queue.SimpleQueue()
        start_new_thread(self._work, ())  # Thread.start waits for an event, and Ctrl-C may come meanwhile

    def _work(self) -> None:
        while True:
            self.jobs.get().run()


_lock = threading.Lock()
_spawner: _Spawner | None = None


def spawn(job: StartJob) -> None:
    """Start a process from the long-lived thread.

    The job comes from the caller, who therefore can cancel or await it even when Ctrl-C falls into this very call.
    """
    global _spawner  # noqa: PLW0603 - one thread per program, made at first need
    with _lock:
        if _spawner is None or _spawner.pid != os.getpid():  # a fork takes no threads along
            _spawner = _Spawner()
        _spawner.jobs.put(job)


def spawn_confined(job: StartJob) -> None:
    """Start a process from a thread of its own, which takes restrictions upon itself in the start, and then ends."""
    start_new_thread(job.run, ())
