"""A local Dask cluster that only this process can reach (extra ``dask``).

Anyone who can connect to a Dask listener can run programs. Every listener is therefore on loopback and requires the
certificate of this cluster, whose key exists only in memory. HTTP is off. Workers keep their files in a
private folder, because they import modules from it.
"""

from __future__ import annotations

import logging
import tempfile
from contextlib import suppress
from typing import Any

from distributed import Nanny, Scheduler, Security, SpecCluster, Worker
from distributed.worker_memory import parse_memory_limit


class _QuietScheduler(Scheduler):
    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do not start the server: even without a dashboard it would listen on port 8787."""


class _QuietWorker(Worker):
    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do not start the server."""


class PrivateCluster:
    """A scheduler in this process, and ``jobs`` worker processes, each with its own nanny."""

    def __init__(self, jobs: int) -> None:
        """Start the cluster. Raise ImportError if ``cryptography`` is not installed."""
        self.security = Security.temporary()  # type: ignore[no-untyped-call]
        self._folder = tempfile.TemporaryDirectory(prefix="stackmem-dask-", ignore_cleanup_errors=True)
        common = {"host": "127.0.0.1", "protocol": "tls://", "security": self.security}
        memory = parse_memory_limit("auto", 1, jobs, logger=logging.getLogger(__name__))
        worker = {
            "cls": Nanny,
            "options": common
            | {
                "worker_class": _QuietWorker,
                "nthreads": 1,
                "memory_limit": memory,
                "local_directory": self._folder.name,
            }
            | {"dashboard": False, "silence_logs": logging.CRITICAL},
        }
        try:
            self.cluster: Any = SpecCluster(  # type: ignore[no-untyped-call]
                scheduler={"cls": _QuietScheduler, "options": common | {"port": 0, "dashboard": False}},
                workers=dict.fromkeys(range(jobs), worker),
                security=self.security,
                silence_logs=logging.CRITICAL,
            )
        except BaseException:
            self._folder.cleanup()
            raise

    def close(self) -> None:
        """Stop the workers and remove their files."""
        with suppress(Exception):
            self.cluster.close(timeout=5)
        self._folder.cleanup()
