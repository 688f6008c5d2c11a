"""One thread that starts every command and lives as long as the program.

A sandbox asked to die with its parent dies with the *thread* that started it, so a thread that ends must not start
one. And Ctrl-C interrupts the main thread only: a start that runs here is always whole.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from subprocess import Popen

Start = Callable[[], Popen[bytes]]


class _Spawner:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.jobs: queue.SimpleQueue[tuple[Start, Future[Popen[bytes]]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="stackmem-spawner", daemon=True).start()

    def _work(self) -> None:
        while True:
            start, job = self.jobs.get()
            _run(start, job)
            del start, job


def _run(start: Start, job: Future[Popen[bytes]]) -> None:
    """Call ``start`` and keep its process, or what it raised; a job that was cancelled in time never starts."""
    if not job.set_running_or_notify_cancel():
        return
    try:
        job.set_result(start())
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
        job.set_exception(error)


_lock = threading.Lock()
_spawner: _Spawner | None = None


def spawn(start: Start, job: Future[Popen[bytes]]) -> None:
    """Start a process from the long-lived thread.

    The job comes from the caller, who therefore can cancel or await it even when Ctrl-C falls into this very call.
    """
    global _spawner  # noqa: PLW0603 - one thread per program, made at first need
    with _lock:
        if _spawner is None or _spawner.pid != os.getpid():  # a fork takes no threads along
            _spawner = _Spawner()
        _spawner.jobs.put((start, job))


def spawn_confined(confine: Callable[[], None], start: Start, job: Future[Popen[bytes]]) -> None:
    """Start a process from a thread of its own, which takes restrictions upon itself first and then ends."""

    def work() -> Popen[bytes]:
        confine()
        return start()

    threading.Thread(target=_run, args=(work, job), name="stackmem-confined", daemon=True).start()
