"""Where a run's facts are kept: one file that only grows.

Rule 1: a record is written with one call before the next effect starts, so that kill -9 cannot undo it.
Rule 2: ``sync`` makes what was written survive a power loss; the harness calls it before each model request.
Rule 3: one process writes a run at a time: a writer holds the run's lock from its making until it is closed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.core.events import Event, FramePopped, FramePushed, RunEnded
from stackmem.errors import TraceError

from .lock import Lock
from .record import Record, origin, read_line, write_line


class End(Struct, frozen=True):
    """Where a trace ends.

    Attributes:
        count: Number of its last record.
        digest: That record's digest.
        whole_bytes: Length of the file up to there, a line end that is missing not counted.
        terminated: Whether the last record has its line end.

    """

    count: int
    digest: str
    whole_bytes: int
    terminated: bool = True


class TraceWriter:
    """Appends the events of one run; ``TraceWriter(path)`` begins it, ``TraceWriter.after`` goes on with it."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time, *, after: int = 0, digest: str = "") -> None:
        """Make the file, and take the run's lock.

        Args:
            after: Number of the record before the first one: that of a fork's parent.
            digest: That record's digest.

        Raises:
            TraceError: The file is there already, or cannot be made.

        """
        if not path.parent.is_dir():
            raise TraceError(f"the trace {path} cannot be made: there is no such folder; choose another --runs-dir")
        self._open(path, Lock(path), now, End(after, digest, 0), os.O_CREAT | os.O_EXCL)

    @classmethod
    def after(cls, path: Path, lock: Lock, end: End, now: Callable[[], float] = time.time) -> TraceWriter:
        """Go on behind ``end``; what stands behind it, a torn record, is cut off.

        Args:
            lock: The run's lock, taken before the trace was read; it is the writer's from here on.

        Raises:
            TraceError: The file cannot be written; the lock is given back.

        """
        writer = cls.__new__(cls)
        writer._open(path, lock, now, end, 0)
        try:
            os.ftruncate(writer._file, end.whole_bytes)
            if not end.terminated:
                os.write(writer._file, b"\n")
                writer._size += 1
            os.fdatasync(writer._file)
        except OSError as error:
            writer.close()
            raise writer._unwritable(error.strerror) from error
        return writer

    def _open(self, path: Path, lock: Lock, now: Callable[[], float], end: End, how: int) -> None:
        self._path = path
        self._now = now
        self._lock = lock
        self._seq = self._synced = end.count
        self._size = end.whole_bytes
        self._boundary = False
        self.digest = end.digest
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | how, 0o644)
        except OSError as error:
            lock.close()
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
        self._boundary = self._boundary or isinstance(event, FramePushed | FramePopped | RunEnded)
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
        self._boundary = False

    def sync_frame(self) -> None:
        """``sync``, where a frame or the run began or ended since the last one."""
        if self._boundary:
            self.sync()

    def syncs(self, policy: str) -> Callable[[], None]:
        """What is to be done before each request under ``--fsync`` ``step``, ``frame`` or ``none``.

        Whatever it is, a power loss may cost what came after; kill -9 costs nothing.
        """
        return {"step": self.sync, "frame": self.sync_frame}.get(policy, _nothing)

    def close(self) -> None:
        """Close the file and give the lock back; a second time does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.close()

    def _unwritable(self, why: str | None) -> TraceError:
        return TraceError(
            f"the trace {self._path} cannot be written ({why}); its first {self._seq} records are whole: "
            "make room, then go on with stackmem resume"
        )


def _nothing() -> None:
    pass


class TraceReader:
    """Reads the records of one file, checking each line's digest; lazily, for traces larger than memory.

    A fork's file goes on where its parent was cut: its first record tells the number and the digest before it.
    ``lineage.RunReader`` reads both.

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
            fork = origin(file.readline())
            number, self.digest = (fork.at, fork.digest) if fork else (0, "")
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
