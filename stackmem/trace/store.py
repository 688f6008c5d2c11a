"""Where a run's facts are kept: one file that only grows.

Rule 1: a record is written with one call before the next effect starts, so that kill -9 cannot undo it.
Rule 2: ``sync`` makes what was written survive a power loss; the harness calls it before each model request.
Rule 3: one process writes a run at a time: a writer holds the run's lock from its making until it is closed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from stackmem.core.facts import Event, FramePopped, FramePushed, RunEnded
from stackmem.errors import TraceError, WorkspaceError
from stackmem.foreign.files import descriptor_of_regular, open_regular

from .lock import Lock
from .record import DIGEST_MARK, Record, is_followed, origin, read_line

LONGEST_BYTES = 256 * 1024 * 1024
"""Of a line; who reads one that somebody else wrote holds no more of it."""

RESERVE_BYTES = 512 * 1024
"""Sixty times what a measured end took: its last records, its result and a small patch."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_encoder = msgspec.json.Encoder()


def _nothing() -> None:
    pass


def write_line(record: Record, previous: str) -> tuple[bytes, str]:
    """The line of ``record``, newline included, and its digest; ``record.read_line`` reads it."""
    body = _encoder.encode(record)
    digest = hashlib.sha256(previous.encode() + body).hexdigest()
    return body[:-1] + DIGEST_MARK + digest.encode() + b'"}\n', digest


def append_line(file: int, line: bytes, size: int) -> int:
    """Write a line behind the first ``size`` bytes of a file, with one call; the new size.

    Raises:
        OSError: The disk took none or only a part of it; what stood before is whole.
    """
    written = os.write(file, line)
    if written < len(line):
        os.ftruncate(file, size)  # a part of a line is none
        raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were taken, the disk may be full")
    return size + written


def cut_torn_line(file: int) -> int:
    """Take away what a crash left of a last line; the length that stays. Raises ``OSError``."""
    size = os.fstat(file).st_size
    end, step = size, 65_536
    while end > 0:
        start = max(0, end - step)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
    return end


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


class Reserve:
    """Room on the disk that a run takes at its start, so that its end can be written though the disk is full.

    It is a file without a name, so that it is gone with the process, however that dies. Whoever gives it back once has
    none any more: what then fits is for the end alone.

    Attributes:
        released: Whether it was given back.
    """

    def __init__(self, folder: Path, size: int = RESERVE_BYTES) -> None:
        """Take it; where a file system cannot set room aside, there is none to give back.

        Raises:
            OSError: There is no room.
        """
        self.released = False
        self._file = _nameless(folder)
        try:
            os.posix_fallocate(self._file, 0, size)
        except OSError as error:
            if error.errno in _NO_ROOM:
                self.release()
                raise

    def release(self) -> None:
        """Give it back; a second time does nothing."""
        self.released = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _nameless(folder: Path) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
    file, name = tempfile.mkstemp(dir=folder)  # a file system without files that have no name
    Path(name).unlink()
    return file


class TraceWriter:
    """Appends the events of one run."""

    def __init__(
        self,
        path: Path,
        now: Callable[[], float] = time.time,
        *,
        after: int = 0,
        digest: str = "",
        held: tuple[Lock, End] | None = None,
        reserves: bool = False,
    ) -> None:
        """Begin the run's file, or go on with it.

        Args:
            after: Of a new file, the number of the record before the first one: that of a fork's parent.
            digest: That record's digest.
            held: Go on behind this end, under a lock that was taken before the trace was read and is the writer's from
                here on; what stands behind the end, a torn record, is cut off.
            reserves: Set room aside, and give it back where the disk takes no more: a run's end can be written then.

        Raises:
            TraceError: The file is there already, cannot be made or not be written, or another process writes it.
        """
        if held is None and not path.parent.is_dir():
            raise TraceError(f"the trace {path} cannot be made: there is no such folder; choose another --runs-dir")
        self._lock, end = held or (Lock(path), End(after, digest, 0))
        self._path = path
        self._now = now
        self._reserve: Reserve | None = None
        self._seq = self._synced = end.count
        self._size = end.whole_bytes
        self._boundary = False
        self._forced = True
        self._after_sync: Callable[[int, str], None] | None = None
        self.digest = end.digest
        make = 0 if held else os.O_CREAT | os.O_EXCL
        try:
            self._file = descriptor_of_regular(path, os.O_WRONLY | os.O_APPEND | make)
        except OSError as error:
            self._lock.close()
            doing = "written" if held else "made"
            raise TraceError(
                f"the trace {path} cannot be {doing}: {error.strerror}; choose another --runs-dir"
            ) from error
        try:
            self._reserve = Reserve(path.parent) if reserves else None
        except OSError as error:
            self.close()
            raise TraceError(
                f"the disk of {path.parent} has no room for a run's end ({error.strerror}); make room there"
            ) from error
        if held:
            self._cut(end)

    def _cut(self, end: End) -> None:
        try:
            os.ftruncate(self._file, end.whole_bytes)
            if not end.terminated:
                self._size = append_line(self._file, b"\n", self._size)
            os.fdatasync(self._file)
        except OSError as error:
            self.close()
            raise self._unwritable(error.strerror) from error

    @property
    def count(self) -> int:
        return self._seq

    @property
    def synced(self) -> int:
        """Number of the last record that would survive a power loss."""
        return self._synced

    def append(self, event: Event) -> Record:
        """Write ``event`` as the next record.

        Raises:
            TraceError: The disk took none or only a part of it; what stood before is whole.
        """
        record = Record(self._seq + 1, round(self._now(), 3), event)
        line, digest = write_line(record, self.digest)
        try:
            self._append(line)
        except OSError as error:
            raise self._unwritable(error.strerror) from error
        self._seq, self.digest = record.seq, digest
        self._boundary = self._boundary or isinstance(event, FramePushed | FramePopped | RunEnded)
        return record

    def _append(self, line: bytes) -> None:
        try:
            self._size = append_line(self._file, line, self._size)
        except OSError as error:
            if error.errno not in _NO_ROOM or self._reserve is None or self._reserve.released:
                raise
            self.release()
            self._size = append_line(self._file, line, self._size)

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

    def must_have_room(self) -> None:
        """Raises ``WorkspaceError`` where the disk was full: what room there is now is for the end."""
        if self._reserve is not None and self._reserve.released:
            raise WorkspaceError(
                f"the disk of {self._path.parent} is full; make room there, then go on with stackmem resume"
            )

    def release(self) -> None:
        """Give back the room that was set aside."""
        if self._reserve is not None:
            self._reserve.release()

    def settle(self) -> None:
        """Make every record survive a power loss at the end of a run, unless its policy leaves that to the system."""
        if self._forced:
            self.sync()

    def after_sync(self, call: Callable[[int, str], None]) -> None:
        """Have this called once with the number and the digest of the last record, as soon as it was synced."""
        self._after_sync = call

    def syncs(self, policy: str, before: Callable[[], None] = _nothing) -> Callable[[], None]:
        """What is to be done before each request under ``--fsync`` ``step``, ``frame`` or ``none``.

        Whatever it is, a power loss may cost what came after; kill -9 costs nothing.

        Args:
            before: Makes durable what the records name.
        """
        self._forced = policy != "none"

        def sync() -> None:
            if self._synced < self._seq and (policy == "step" or (policy == "frame" and self._boundary)):
                before()
                self.sync()
            if self._after_sync is not None:
                call, self._after_sync = self._after_sync, None
                call(self.count, self.digest)

        return sync

    def close(self) -> None:
        """Close the file and give the lock back; a second time does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.release()
        self._lock.close()

    def _unwritable(self, why: str | None) -> TraceError:
        return TraceError(
            f"the trace {self._path} cannot be written ({why}); its first {self._seq} records are whole: "
            "make room, then go on with stackmem resume"
        )


def unbegun(run_dir: Path) -> TraceError:
    """What a run is answered with that was killed before its first record."""
    name = run_dir.resolve().name
    return TraceError(f"the run {name} never began: no record of it was written; stackmem runs rm {name} removes it")


class TraceReader:
    """Reads the records of one file, checking each line's digest; lazily, for traces larger than memory.

    A fork's file goes on where its parent was cut: its first record tells the number and the digest before it.
    ``lineage.RunReader`` reads both.

    Attributes:
        torn_bytes: Length of a last line that a crash cut short, known once all was read; it is no part of the trace.
        digest: Digest of the last line read.
        read_bytes: Where in the file the last record read ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.torn_bytes = 0
        self.digest = ""
        self.read_bytes = 0

    def __iter__(self) -> Iterator[Record]:
        """The records in order.

        Raises:
            TraceError: The file cannot be read, is empty, or a line is broken (named by number).
        """
        try:
            file = open_regular(self._path)
        except OSError as error:
            raise TraceError(f"the trace {self._path} cannot be read: {error.strerror}") from error
        with file:
            fork = origin(file.readline(LONGEST_BYTES))
            number, self.digest = (fork.at, fork.digest) if fork else (0, "")
            file.seek(0)
            self.read_bytes = 0
            first = number + 1
            for number, line in enumerate(self._lines(file), first):
                if line.endswith(b"\n"):
                    record, self.digest = read_line(line[:-1], self.digest, number)
                else:
                    try:
                        record, self.digest = read_line(line, self.digest, number)
                    except TraceError:
                        if is_followed(line, self.digest, number):
                            raise
                        self.torn_bytes = len(line)
                        break
                self.read_bytes += len(line)
                yield record
            if number - bool(self.torn_bytes) < first:
                raise unbegun(self._path.parent)

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        try:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_BYTES), b""), 1):
                if len(line) == LONGEST_BYTES and not line.endswith(b"\n"):
                    raise TraceError(f"line {number:,} of the file is longer than any record; it is no trace of a run")
                yield line
        except OSError as error:
            raise TraceError(
                f"the trace {self._path} cannot be read further: {error.strerror}; copy what is left elsewhere"
            ) from error
