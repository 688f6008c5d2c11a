"""Where a run's facts are kept: one file that only grows.

Rule 1: a record is written with one call before the next effect starts, so that kill -9 cannot undo it.
Rule 2: ``sync`` makes what was written survive a power loss; the harness calls it before each model request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stackmem.core.events import Event
from stackmem.errors import TraceError

from .record import Record, origin, read_line, write_line


class TraceWriter:
    """Appends the events of one new run."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time, *, after: int = 0, digest: str = "") -> None:
        """Make the file.

        Args:
            after: Number of the record before the first one: that of a fork's parent.
            digest: That record's digest.

        """
        self._path = path
        self._now = now
        self._seq = after
        self._synced = after
        self._size = 0
        self.digest = digest
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise TraceError(f"the trace {path} cannot be made: {error.strerror}; choose another --runs-dir") from error

    @property
    def count(self) -> int:
        return self._seq

    def append(self, event: Event) -> Record:
        """Write ``event`` as the next record.

        Raises:
            TraceError: The disk took none or only a part of it; what stood before is whole.

        """
        record = Record(self._seq + 1, round(self._now(), 3), event)
        line, digest = write_line(record, self.digest)
        try:
            written = os.write(self._file, line)
            if written < len(line):
                os.ftruncate(self._file, self._size)  # a part of a record is none
                raise self._unwritable(f"only {written} of {len(line)} bytes were taken, the disk may be full")
        except OSError as error:
            raise self._unwritable(error.strerror) from error
        self._seq, self.digest = record.seq, digest
        self._size += written
        return record

    def sync(self) -> None:
        """Make every record so far survive a power loss."""
        if self._synced == self._seq:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise self._unwritable(error.strerror) from error
        self._synced = self._seq

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _unwritable(self, why: str | None) -> TraceError:
        return TraceError(
            f"the trace {self._path} cannot be written ({why}); its first {self._seq} records are whole: "
            "make room, then look at them with stackmem replay"
        )


class TraceReader:
    """Reads the records of one file, checking each line's digest; lazily, for traces larger than memory.

    A fork's file goes on where its parent was cut: its first record tells the number and the digest before it.
    ``lineage.read_run`` reads both.

    Attributes:
        torn_bytes: Length of a last line that a crash cut short, known once all was read; it is no part of the trace.
        digest: Digest of the last line read.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.torn_bytes = 0
        self.digest = ""

    def __iter__(self) -> Iterator[Record]:
        """The records in order.

        Raises:
            TraceError: The file cannot be read, is empty, or a line is broken (named by number).

        """
        try:
            file = self._path.open("rb")
        except OSError as error:
            raise TraceError(f"the trace {self._path} cannot be read: {error.strerror}") from error
        with file:
            number, self.digest = origin(file.readline())
            file.seek(0)
            first = number + 1
            for number, line in enumerate(file, first):
                if line.endswith(b"\n"):
                    record, self.digest = read_line(line[:-1], self.digest, number)
                else:
                    try:
                        record, self.digest = read_line(line, self.digest, number)
                    except TraceError:
                        self.torn_bytes = len(line)
                        return
                yield record
            if number < first:
                raise TraceError(f"the trace {self._path} is empty; the run ended before its first record")
