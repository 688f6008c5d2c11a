"""Run trials in local processes, forked from one that has imported everything, and watch them with selectors.

Rule 1: a worker is replaced after ``TRIALS_EACH`` trials, so that memory use stays flat. Rule 2: if a worker dies, only
its current trial is lost. The loss is reported and a new worker takes over. Rule 3: no worker outlives the runner,
however the runner ends: each worker watches a pipe to it.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.family import descendants, read_process

from .engine import Lost, Report, Throttled, TrialDone
from .trial import Interrupted, Job, run_trial

TRIALS_EACH = 200
_PATIENCE_SECONDS = 5.0
_ATTEMPTS = 3
_MAX_TMPDIR_BYTES = 70  # bytes; pymp-xxxxxxxx/listener-xxxxxxxx is appended


def _keep_socket_paths_short() -> None:
    """Have multiprocessing create its sockets in /tmp if TMPDIR is long: Linux limits socket paths to 107 bytes."""
    if len(os.fsencode(tempfile.gettempdir())) <= _MAX_TMPDIR_BYTES:
        return
    configured = tempfile.tempdir
    tempfile.tempdir = "/tmp"  # noqa: S108 - the folder made there has a random name and mode 0700
    try:
        util.get_temp_dir()  # multiprocessing caches this folder for the process and removes it at exit
    finally:
        tempfile.tempdir = configured


class _LocalWorker:
    def __init__(self, environ: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=serve, args=(theirs, dict(environ)), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.started_at = 0.0
        self.trials_done = 0

    def take(self, job: Job) -> None:
        self.job, self.started_at = job, time.monotonic()
        with suppress(OSError):  # the worker is dead; its end is reported by the next wait
            self.pipe.send(job)


class LocalEngine:
    """Runs trials in ``jobs`` local processes."""

    def __init__(
        self,
        jobs: int,
        environ: Mapping[str, str] = os.environ,
        *,
        trials_each: int = TRIALS_EACH,
        trial_seconds: float | None = None,  # a trial's worker is killed after this time; None means no limit
    ) -> None:
        """Store the settings. Processes start with the first trial."""
        self.places = jobs
        self._environ = environ
        self._trials_each = trials_each
        self._trial_seconds = trial_seconds
        self._idle: list[_LocalWorker] = []
        self._busy: list[_LocalWorker] = []
        self._selector = selectors.DefaultSelector()
        _keep_socket_paths_short()
        multiprocessing.get_context("forkserver").set_forkserver_preload(["stackmem.lab.bench.preload"])

    def submit(self, job: Job) -> None:
        worker = self._idle.pop() if self._idle else self._hired()
        self._busy.append(worker)
        worker.take(job)

    def wait(self, seconds: float) -> list[Report]:
        """Return new reports, waiting at most ``seconds`` for the first."""
        reports: list[Report] = []
        ready = {id(key.data): key.data for key, _ in self._selector.select(seconds)}
        for worker in ready.values():
            reports += self._reports_of(worker)
        for worker in [worker for worker in self._busy if self._is_late(worker)]:
            reports += self._let_go(worker, f"it took more than {self._trial_seconds:g} s and was killed", final=True)
        return reports

    def close(self) -> None:
        """Stop all workers and what they started. Workers that take more than 5 s are killed."""
        workers = [*self._idle, *self._busy]
        for worker in workers:
            worker.pipe.close()
            worker.process.terminate()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            _kill(worker.process)
        self._idle, self._busy = [], []
        self._selector.close()

    def _hired(self) -> _LocalWorker:
        worker = self._started()
        self._selector.register(worker.pipe, selectors.EVENT_READ, worker)
        self._selector.register(worker.process.sentinel, selectors.EVENT_READ, worker)
        return worker

    def _started(self) -> _LocalWorker:
        """Return a new worker. Retries while the fork server restarts after it was killed."""
        for attempt in range(1, _ATTEMPTS):
            with suppress(EOFError, OSError):
                return _LocalWorker(self._environ)
            time.sleep(0.2 * attempt)  # gives the system time to notice that the fork server has ended
        try:
            return _LocalWorker(self._environ)
        except (EOFError, OSError) as error:
            raise WorkspaceError(
                f"cannot start a worker ({error or 'the process that forks them was killed'}); finished trials are "
                "saved: continue with fewer --jobs"
            ) from error

    def _reports_of(self, worker: _LocalWorker) -> list[Report]:
        reports: list[Report] = []
        try:
            while worker.pipe.poll():
                message: Any = worker.pipe.recv()
                if isinstance(message, TrialDone | Throttled):
                    reports.append(message)
                if isinstance(message, TrialDone):
                    self._free(worker)
                    break
        except (EOFError, OSError):
            worker.process.join(_PATIENCE_SECONDS)
            return [*reports, *self._let_go(worker, _ended(worker.process))]
        return reports

    def _free(self, worker: _LocalWorker) -> None:
        worker.job = None
        worker.trials_done += 1
        self._busy.remove(worker)
        if worker.trials_done < self._trials_each:
            self._idle.append(worker)
        else:
            self._let_go(worker, "")

    def _let_go(self, worker: _LocalWorker, reason: str, *, final: bool = False) -> list[Report]:
        """Stop a worker. The trial that it was running, if any, is reported as lost."""
        self._selector.unregister(worker.pipe)
        self._selector.unregister(worker.process.sentinel)
        worker.pipe.close()
        if worker.job is not None:
            _kill(worker.process)
        worker.process.join(_PATIENCE_SECONDS)
        _kill(worker.process)
        for crew in (self._idle, self._busy):
            if worker in crew:
                crew.remove(worker)
        return [Lost(worker.job.trial.id, reason, final)] if worker.job is not None else []

    def _is_late(self, worker: _LocalWorker) -> bool:
        return self._trial_seconds is not None and time.monotonic() - worker.started_at > self._trial_seconds


def _kill(process: BaseProcess) -> None:
    """Kill a worker and everything it started.

    A sandbox that is still being set up does not yet know which process it must die with.
    """
    if process.is_alive() and process.pid is not None:
        family = descendants(process.pid)
        process.kill()
        process.join(_PATIENCE_SECONDS)
        for member in family:
            now = read_process(member.pid)
            # The start time shows that the pid was not reused by another process.
            if now is not None and now.started == member.started:
                with suppress(OSError):
                    os.kill(member.pid, signal.SIGKILL)


def _ended(process: BaseProcess) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        more = ", possibly because memory ran out" if name == "SIGKILL" else ""
        return f"its worker was killed by {name}{more}"
    return f"its worker ended with exit code {code}"


def serve(pipe: Connection, environ: Mapping[str, str]) -> None:
    """Run each job and send its row, until the pipe closes."""
    os.setsid()  # Ctrl-C in the terminal must reach only the runner
    threading.Thread(target=_end_with_the_runner, daemon=True).start()
    os.environ.clear()
    os.environ.update(environ)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        throttled = partial(_tell, pipe, Throttled(job.trial.id))
        try:
            _tell(pipe, TrialDone(run_trial(job, throttled)))
        except Interrupted:
            return


def _tell(pipe: Connection, report: TrialDone | Throttled) -> None:
    with suppress(OSError):  # the runner is gone, so this worker ends too
        pipe.send(report)


def _end_with_the_runner() -> None:
    """Wait for the end of the runner, then kill this worker and everything it started.

    Without the runner, rows cannot be delivered.
    """
    runner = multiprocessing.parent_process()
    if runner is not None:
        runner.join()
        os.killpg(0, signal.SIGKILL)
