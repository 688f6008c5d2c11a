"""Run trials on a Dask cluster (extra ``dask``), for benches too large for one machine.

The workers need the bench's folder at the same path, the same version of stackmem, and the providers' keys in their own
environment. Give each worker one thread. Dask itself repeats a trial when its worker dies. After several such workers
Dask gives up on the trial, and the trial ends with an error row.
"""

from __future__ import annotations

import queue
import time
from contextlib import suppress
from typing import Any

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.foreign.installing import install_command

from .engine import Lost, Report, TrialDone
from .trial import Job, run_trial

_CONNECT_SECONDS = 15.0
_RESTART_SECONDS = 30.0


class DaskEngine:
    """Runs trials on the cluster at ``address``, or on a private local one with ``jobs`` processes."""

    def __init__(
        self,
        address: str | None,
        jobs: int,
        connect_seconds: float = _CONNECT_SECONDS,
        *,
        trial_seconds: float | None = None,
    ) -> None:
        """Connect to the cluster, or start the local processes.

        ``trial_seconds`` is the time after which a trial's worker is killed and restarted by its nanny; None for never.
        Raise UsageError if the extra is not installed, or the scheduler does not answer.
        """
        try:
            import cryptography  # noqa: F401 - for the cluster's certificates
            import distributed
        except ImportError as error:
            raise UsageError(f"--engine dask needs the extra 'dask'; install it: {install_command('dask')}") from error
        dask: Any = distributed  # it has no type annotations
        self._jobs = jobs
        self._has_address = address is not None
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._trial_seconds = trial_seconds
        self._open: dict[str, Any] = {}
        self._started_at: dict[str, float] = {}
        self._cluster: Any = None
        try:
            if address is None:
                from .dask_cluster import PrivateCluster  # imported here because it needs the extra

                self._cluster = PrivateCluster(jobs)
            self._client: Any = dask.Client(
                address or "tcp://" if self._cluster is None else self._cluster.cluster, timeout=connect_seconds
            )
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--scheduler {address}: no answer from a Dask scheduler ({error}); give an address like tcp://HOST:8786"
            ) from error

    @property
    def places(self) -> int:
        """Return the current number of worker threads.

        Trials never queue on a worker. When a worker dies, Dask counts that against every trial the worker had.
        """
        if not self._has_address:
            return self._jobs
        with suppress(OSError, ValueError):
            threads: int = sum(self._client.nthreads().values())
            return max(1, threads)
        return 1

    def submit(self, job: Job) -> None:
        key = f"{job.trial.id}-{id(self)}"
        future = self._client.submit(run_trial, job, key=key, pure=False)
        self._open[job.trial.id] = future
        self._started_at[job.trial.id] = time.monotonic()
        future.add_done_callback(self._ended.put)

    def wait(self, seconds: float) -> list[Report]:
        """Return new reports, waiting at most ``seconds`` for the first.

        Raise WorkspaceError if the scheduler is gone.
        """
        reports: list[Report] = []
        with suppress(queue.Empty):
            reports += self._reported(self._ended.get(timeout=seconds))
            while True:
                reports += self._reported(self._ended.get_nowait())
        reports += [self._killed(trial) for trial in self._late()]
        if self._client.status not in ("running", "connecting", "newly-created"):
            raise _scheduler_lost()
        return reports

    def close(self) -> None:
        for future in self._open.values():
            with suppress(Exception):
                future.cancel()
        self._open = {}
        with suppress(Exception):
            self._client.close(timeout=5)
        if self._cluster is not None:
            self._cluster.close()

    def _reported(self, future: Any) -> list[Report]:
        """Return the report on a trial, or an empty list if the trial was abandoned earlier."""
        trial = next((id_ for id_, open_ in self._open.items() if open_.key == future.key), None)
        if trial is None:
            return []
        del self._open[trial], self._started_at[trial]
        if future.status == "finished":
            return [TrialDone(future.result())]
        if future.status != "error":  # cancelled or lost: only a lost scheduler leaves a trial in this state
            raise _scheduler_lost()
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            return [Lost(trial, "every worker that ran it died, possibly because memory ran out", final=True)]
        return [Lost(trial, f"{type(error).__name__}: {error}", final=True)]

    def _late(self) -> list[str]:
        if self._trial_seconds is None:
            return []
        before = time.monotonic() - self._trial_seconds
        return [trial for trial in self._open if self._started_at[trial] < before]

    def _killed(self, trial: str) -> Lost:
        """Abandon a trial and have its worker killed. Only the worker's nanny can do that."""
        future = self._open.pop(trial)
        del self._started_at[trial]
        working: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            working = self._client.processing()
        places = [location for location, keys in working.items() if future.key in keys]
        reason = f"it took more than {self._trial_seconds:g} s and was killed"
        with suppress(Exception):
            future.cancel()
        try:
            self._client.restart_workers(places, timeout=_RESTART_SECONDS, raise_for_error=False)
        except Exception:  # noqa: BLE001 - the trial is abandoned anyway
            reason = (
                f"it took more than {self._trial_seconds:g} s and was abandoned; its worker has no nanny to kill it"
            )
        return Lost(trial, reason, final=True)


def _scheduler_lost() -> WorkspaceError:
    return WorkspaceError(
        "the Dask scheduler is gone; finished trials are saved: start a scheduler and repeat the command"
    )
