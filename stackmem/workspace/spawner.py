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
        self._jobs: queue.SimpleQueue[tuple[Start, Future[Popen[bytes]]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="stackmem-spawner", daemon=True).start()

    def submit(self, start: Start) -> Future[Popen[bytes]]:
        job: Future[Popen[bytes]] = Future()
        self._jobs.put((start, job))
        return job

    def _work(self) -> None:
        while True:
            start, job = self._jobs.get()
            run_job(start, job)
            del start, job


def run_job(start: Start, job: Future[Popen[bytes]]) -> None:
    """Call ``start`` and keep its process, or what it raised."""
    try:
        job.set_result(start())
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
        job.set_exception(error)


_lock = threading.Lock()
_spawner: _Spawner | None = None


def spawn(start: Start) -> Future[Popen[bytes]]:
    """Start a process from the long-lived thread; the caller owns the process."""
    global _spawner  # noqa: PLW0603 - one thread per program, made at first need
    with _lock:
        if _spawner is None or _spawner.pid != os.getpid():  # a fork takes no threads along
            _spawner = _Spawner()
        return _spawner.submit(start)


def spawn_confined(confine: Callable[[], None], start: Start) -> Future[Popen[bytes]]:
    """Start a process from a thread of its own, which takes restrictions upon itself first and then ends."""
    job: Future[Popen[bytes]] = Future()

    def work() -> Popen[bytes]:
        confine()
        return start()

    threading.Thread(target=run_job, args=(work, job), name="stackmem-confined", daemon=True).start()
    return job
