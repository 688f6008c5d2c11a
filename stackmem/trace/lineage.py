"""A run's whole history: its own records, and before them those it shares with the run it was forked from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stackmem.core.events import RunForked
from stackmem.errors import TraceError

from .record import Record
from .store import TraceReader

TRACE = "trace.jsonl"


class RunReader:
    """Reads a run from its folder, parents first; they stand in the same runs directory.

    Attributes:
        torn_bytes: As ``TraceReader``, of the run's own file.
        digest: Digest of the last record read.

    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.torn_bytes = 0
        self.digest = ""

    def __iter__(self) -> Iterator[Record]:
        """The records in order, the shared ones too.

        Raises:
            TraceError: A line is broken, or a parent is missing or has changed (named).

        """
        own = TraceReader(self._run_dir / TRACE)
        for record in own:
            if isinstance(record.event, RunForked):
                yield from self._shared(record.event)
            self.digest = own.digest
            yield record
        self.torn_bytes = own.torn_bytes

    def _shared(self, fork: RunForked) -> Iterator[Record]:
        """The parent's records up to the cut, whose digest must be the one the fork names."""
        parent = self._run_dir.parent / fork.parent
        if not (parent / TRACE).is_file():
            raise TraceError(f"the run was forked from {fork.parent}, which is not in {parent.parent}; bring it back")
        reader = RunReader(parent)
        for record in reader:
            if record.seq < fork.at:
                yield record
                continue
            if reader.digest != fork.digest:
                break
            yield record
            return
        raise TraceError(f"the run was forked from {fork.parent} at record {fork.at}, which has changed since")
