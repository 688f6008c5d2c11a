"""A worker process of the local engine: it makes one trial after the other, as it is told through its pipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

from .engine import Throttled, TrialDone
from .trial import Interrupted, run_trial


def serve(pipe: Connection, environ: Mapping[str, str]) -> None:
    """Answer each job with its row until the pipe ends.

    Args:
        environ: Of the runner, as it is now; the process that forks the workers may be older.

    """
    os.setsid()  # Ctrl-C in the terminal is the runner's to answer
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
    with suppress(OSError):  # the runner has gone; so do we, at once
        pipe.send(report)


def _end_with_the_runner() -> None:
    """A runner that was killed leaves nobody who would take the rows: end at once, with everything we started."""
    runner = multiprocessing.parent_process()
    if runner is not None:
        runner.join()
        os.killpg(0, signal.SIGKILL)
