"""Follows a run's records as they arrive and returns each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stackmem.core.errors import TraceError
from stackmem.foreign.files import open_regular
from stackmem.trace.lineage import TRACE, RunReader
from stackmem.trace.record import Record, read_line
from stackmem.trace.store import LONGEST_BYTES


class RunTail:
    """Reads a run that may still be written. ``read_bytes`` is the number of bytes of the trace returned so far."""

    def __init__(self, run_dir: Path) -> None:
        """Start before the first record, without reading yet."""
        self._folder = run_dir
        self._position: tuple[int, int, str] | None = None  # bytes and records read, and the last digest
        # length of the text after the last complete record: a line that is being written, or was cut off
        self.torn_bytes = 0

    @property
    def read_bytes(self) -> int:
        return self._position[0] if self._position is not None else 0

    def fresh(self) -> Iterator[Record]:
        """Return the records that were not returned before. The first call returns all, including those of a fork's
        parents.

        Raise TraceError if a line is broken, a parent is missing, or the file was changed.
        """
        return self._all() if self._position is None else self._added(*self._position)

    def _all(self) -> Iterator[Record]:
        reader = RunReader(self._folder)
        for record in reader:
            self._position = reader.read_bytes, record.seq, reader.digest
            yield record
        self.torn_bytes = reader.torn_bytes

    def _added(self, read_bytes: int, number: int, digest: str) -> Iterator[Record]:
        path = self._folder / TRACE
        try:
            with open_regular(path) as file:
                if file.seek(0, 2) < read_bytes:
                    raise TraceError(f"the trace {path} is shorter than it was; open the run again")
                file.seek(read_bytes)
                for line in iter(lambda: file.readline(LONGEST_BYTES), b""):
                    self.torn_bytes = 0 if line.endswith(b"\n") else len(line)
                    if self.torn_bytes:
                        return
                    read_bytes += len(line)
                    if line != b"\n":  # the newline of a record that was complete without it
                        record, digest = read_line(line[:-1], digest, number + 1)
                        number = record.seq
                        self._position = read_bytes, number, digest
                        yield record
        except OSError as error:
            raise TraceError(f"the trace {path} cannot be read further: {error.strerror}") from error
