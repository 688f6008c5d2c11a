"""A Dask cluster of this machine that only this process can reach (extra ``dask``).

Whoever reaches a Dask listener can run programs. Each listener is on loopback and asks for the certificate of this
cluster, whose key is in memory only. Nothing listens for HTTP. Workers keep their files in a private folder,
because they import modules from it.
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
        """Start none: without a dashboard it would still listen on port 8787."""


class _QuietWorker(Worker):
    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""


class PrivateCluster:
    """A scheduler in this process, and ``jobs`` worker processes with a nanny each."""

    def __init__(self, jobs: int) -> None:
        """Start it."""
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
        """End the workers and remove their files."""
        with suppress(Exception):
            self.cluster.close(timeout=5)
        self._folder.cleanup()
