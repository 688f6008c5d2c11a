"""Storage of a run's facts: one append-only file.

Rule 1: A record is written with one call before the next effect starts, so that kill -9 cannot undo it.
Rule 2: ``sync`` makes written records survive a power failure. The harness calls it before each model request.
Rule 3: Only one process writes a run at a time. A writer has the run's lock from its construction until it is closed.
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

from stackmem.core.errors import TraceError, WorkspaceError
from stackmem.core.facts import Event, FramePopped, FramePushed, RunEnded
from stackmem.foreign.files import descriptor_of_regular, open_regular

from .lock import Lock
from .long_work import report_work
from .record import DIGEST_MARK, Record, is_followed, origin, read_line

_REPORTED_RECORDS = 100
LONGEST_BYTES = 256 * 1024 * 1024
"""Maximum length of a line. Readers of untrusted files never buffer more than this."""

RESERVE_BYTES = 512 * 1024
"""Sixty times the measured size of a run's end: its last records, its result and a small patch."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_BOUNDARIES = frozenset({FramePushed, FramePopped, RunEnded})
_encoder = msgspec.json.Encoder()


def _nothing() -> None:
    pass


def write_line(record: Record, previous: str) -> tuple[bytes, str]:
    """Return the line for ``record``, including its newline, and its digest. ``record.read_line`` reads it."""
    body = _encoder.encode(record)
    digest = hashlib.sha256(previous.encode() + body).hexdigest()
    return body[:-1] + DIGEST_MARK + digest.encode() + b'"}\n', digest


def append_line(file: int, line: bytes, size: int) -> int:
    """Append a line after the first ``size`` bytes of a file with one call, and return the new size.

    Raises:
        OSError: The disk accepted only a part of the line or none of it. The earlier content is unchanged.
    """
    written = os.write(file, line)
    if written < len(line):
        os.ftruncate(file, size)  # remove the incomplete line: the next one would be appended to it
        raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were written, the disk may be full")
    return size + written


def cut_torn_line(file: int) -> int:
    """Remove an incomplete last line that a crash left, and return the remaining length.

    Raise OSError if the file cannot be read or shortened.
    """
    size = os.fstat(file).st_size
    # Read backwards in blocks: a trace may be larger than memory, and a torn line is usually short.
    end, step = size, 65_536
    while end > 0:
        start = max(0, end - step)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
    return end


class End(Struct, frozen=True):
    """The end of a trace.

    Attributes:
        count: Number of its last record.
        digest: That record's digest.
        whole_bytes: Length of the file up to there, without a missing newline.
        terminated: Whether the last record has its newline.
    """

    count: int
    digest: str
    whole_bytes: int
    terminated: bool = True


class Reserve:
    """Disk space that a run reserves at its start, so that its end can be written even if the disk is full.

    It is an unnamed file, which disappears with the process, however that dies. Once released it is not reserved again:
    the space is then only for the end of the run.

    Attributes:
        released: Whether it was released.
    """

    def __init__(self, folder: Path, size: int = RESERVE_BYTES) -> None:
        """Reserve the space. If the file system cannot reserve space, nothing is reserved.

        Raise OSError if the disk is full.
        """
        self.released = False
        self._file = _nameless(folder)
        try:
            os.posix_fallocate(self._file, 0, size)  # not truncate, whose holes take no space on the disk
        except OSError as error:
            if error.errno in _NO_ROOM:
                self.release()
                raise

    def release(self) -> None:
        """Release the space. Further calls have no effect."""
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
    file, name = tempfile.mkstemp(dir=folder)  # the file system does not support unnamed files
    # Unlinked while open, so that it disappears with the process like an unnamed file.
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
        resume_from: tuple[Lock, End] | None = None,
        reserves: bool = False,
    ) -> None:
        """Create the run's file, or continue it.

        Args:
            after: For a new file, the number of the record before its first one: that of a fork's parent.
            digest: That record's digest.
            resume_from: Continue after this end, under a lock that was acquired before the trace was read. The writer
                takes over the lock. Anything after the end, such as a torn record, is cut off.
            reserves: Reserve disk space, and release it when the disk is full, so that the run's end can be written.

        Raises:
            TraceError: The file exists already, cannot be created or written, or another process writes it.
        """
        if resume_from is None and not path.parent.is_dir():
            raise TraceError(
                f"the trace {path} cannot be created: its folder does not exist; choose another --runs-dir"
            )
        self._lock, end = resume_from or (Lock(path), End(after, digest, 0))
        self._path = path
        self._now = now
        self._reserve: Reserve | None = None
        self._seq = self._synced = end.count
        self._size = end.whole_bytes
        self._boundary = False
        self._forced = True
        self._after_sync: Callable[[int, str], None] | None = None
        self.digest = end.digest
        make = 0 if resume_from else os.O_CREAT | os.O_EXCL  # a second run in the folder must fail, not append
        try:
            self._file = descriptor_of_regular(path, os.O_WRONLY | os.O_APPEND | make)
        except OSError as error:
            self._lock.close()
            doing = "written" if resume_from else "created"
            raise TraceError(
                f"the trace {path} cannot be {doing}: {error.strerror}; choose another --runs-dir"
            ) from error
        try:
            self._reserve = Reserve(path.parent) if reserves else None
        except OSError as error:
            self.close()
            raise TraceError(
                f"the disk of {path.parent} has no space for the end of a run ({error.strerror}); free disk space there"
            ) from error
        if resume_from:
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
        """Number of the last record that would survive a power failure."""
        return self._synced

    def append(self, event: Event) -> Record:
        """Write ``event`` as the next record.

        Raises:
            TraceError: The disk accepted only a part of it or none. The earlier records are unchanged.
        """
        # Milliseconds: finer digits are noise, and would make every line of a trace longer.
        record = Record(self._seq + 1, round(self._now(), 3), event)
        line, digest = write_line(record, self.digest)
        try:
            self._append(line)
        except OSError as error:
            raise self._unwritable(error.strerror) from error
        # Only after the write, so that a failed append can be repeated with the same number and digest.
        self._seq, self.digest = record.seq, digest
        self._boundary = self._boundary or type(event) in _BOUNDARIES
        return record

    def _append(self, line: bytes) -> None:
        try:
            self._size = append_line(self._file, line, self._size)
        except OSError as error:
            if error.errno not in _NO_ROOM or self._reserve is None or self._reserve.released:
                raise
            self.release()  # frees the space for this line and for the end of the run
            self._size = append_line(self._file, line, self._size)

    def sync(self) -> None:
        """Make every record so far survive a power failure."""
        if self._synced == self._seq:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise self._unwritable(error.strerror) from error
        self._synced = self._seq
        self._boundary = False

    def must_have_room(self) -> None:
        """Check that the reserve was not used: after that, the remaining space is only for the end of the run.

        Raise WorkspaceError if the disk was full.
        """
        if self._reserve is not None and self._reserve.released:
            raise WorkspaceError(
                f"the disk of {self._path.parent} is full; free disk space, then continue with stackmem resume"
            )

    def release(self) -> None:
        """Release the reserved space."""
        if self._reserve is not None:
            self._reserve.release()

    def settle(self) -> None:
        """Make every record survive a power failure at the end of a run, unless the policy is ``none``."""
        if self._forced:
            self.sync()

    def after_sync(self, call: Callable[[int, str], None]) -> None:
        """Call this once after the next sync, with the number and the digest of the last record."""
        self._after_sync = call

    def syncs(self, policy: str, before: Callable[[], None] = _nothing) -> Callable[[], None]:
        """Return the function to call before each request under ``--fsync`` ``step``, ``frame`` or ``none``.

        Under every policy a power failure may lose later records, and kill -9 loses nothing.

        Args:
            before: Called first; makes the objects that the records refer to durable.
        """
        self._forced = policy != "none"

        def sync() -> None:
            if self._synced < self._seq and (policy == "step" or (policy == "frame" and self._boundary)):
                before()  # first, so that no durable record refers to an object that a power failure took
                self.sync()
            if self._after_sync is not None:
                call, self._after_sync = self._after_sync, None
                call(self.count, self.digest)

        return sync

    def close(self) -> None:
        """Close the file and release the lock. Further calls have no effect."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.release()
        self._lock.close()

    def _unwritable(self, reason: str | None) -> TraceError:
        return TraceError(
            f"the trace {self._path} cannot be written ({reason}); its first {self._seq} records are intact: "
            "free disk space, then continue with stackmem resume"
        )


def unbegun(run_dir: Path) -> TraceError:
    """Return the error for a run that was killed before its first record."""
    name = run_dir.resolve().name
    return TraceError(f"the run {name} never began and has no records; stackmem runs rm {name} removes it")


class TraceReader:
    """Reads the records of one file lazily and checks each line's digest, for traces larger than memory.

    A fork's file continues where its parent was cut: its first record contains the number and the digest before it.
    ``lineage.RunReader`` reads both.

    Attributes:
        torn_bytes: Length of an incomplete last line after a crash, known after reading. It is not part of the trace.
        digest: Digest of the last line read.
        read_bytes: Position in the file after the last record read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.torn_bytes = 0
        self.digest = ""
        self.read_bytes = 0

    def __iter__(self) -> Iterator[Record]:
        """Yield the records in order.

        Raises:
            TraceError: The file cannot be read, is empty, or a line is broken (with its number).
        """
        try:
            file = open_regular(self._path)
        except OSError as error:
            raise TraceError(f"the trace {self._path} cannot be read: {error.strerror}") from error
        with file:
            fork = origin(file.readline(LONGEST_BYTES))
            number, self.digest = (fork.at, fork.digest) if fork else (0, "")
            # The first line was only looked at; it is also a record, and the loop checks its digest.
            file.seek(0)
            self.read_bytes = 0
            first, size = number + 1, os.fstat(file.fileno()).st_size
            for number, line in enumerate(self._lines(file), first):
                if number % _REPORTED_RECORDS == 0:
                    report_work("reading the trace, kB", self.read_bytes // 1000, size // 1000)
                if line.endswith(b"\n"):
                    record, self.digest = read_line(line[:-1], self.digest, number)
                else:
                    try:
                        record, self.digest = read_line(line, self.digest, number)
                    except TraceError:
                        # a crash cannot leave bytes behind a complete record, so somebody edited the file
                        if is_followed(line, self.digest, number):
                            raise
                        self.torn_bytes = len(line)
                        break
                self.read_bytes += len(line)
                yield record
            # A torn first line is no record: the process died before the run had one.
            if number - bool(self.torn_bytes) < first:
                raise unbegun(self._path.parent)

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        try:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_BYTES), b""), 1):
                if len(line) == LONGEST_BYTES and not line.endswith(b"\n"):
                    raise TraceError(
                        f"line {number:,} of the file is longer than any record, so it is not the trace of a run"
                    )
                yield line
        except OSError as error:
            raise TraceError(
                f"the trace {self._path} cannot be read further: {error.strerror}; copy the readable part elsewhere"
            ) from error
