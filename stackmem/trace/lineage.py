"""A run's complete history: its own records, preceded by those that it shares with the run it was forked from.

A fork's file begins with ``RunForked`` and continues its parent's chain. So the parent's lines up to the cut, followed
by the fork's own, are one complete trace too. Packed runs are stored like that, without a parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import UNSET

from stackmem.core.errors import TraceError
from stackmem.core.facts import RunForked, RunStarted
from stackmem.core.program_facts import ProgramStarted
from stackmem.foreign.files import open_regular

from .record import Record, origin
from .store import LONGEST_BYTES, TraceReader, unbegun

TRACE = "trace.jsonl"
HISTORY = "history.git"
_GENERATIONS = 200  # a cycle of parents would be followed forever
_ALL = 1 << 62


class RunReader:
    """Reads a run from its folder, parents first. The parents must be in the same runs directory."""

    def __init__(self, run_dir: Path) -> None:
        self.folder = run_dir  # the run's
        self.torn_bytes = 0  # see ``TraceReader``, for the run's own file
        self.digest = ""  # digest of the last record read
        self.read_bytes = 0  # see ``TraceReader``, for the run's own file

    def __iter__(self) -> Iterator[Record]:
        """Yield all records in order, including the shared ones.

        Raise TraceError if a line is broken, a parent is missing or has changed, or the first record does not start a
        run.
        """
        for number, (folder, at, digest) in enumerate(sources(self.folder)):
            records = self._up_to(folder, at, digest)
            if number == 0:
                first = next(records)
                if not isinstance(first.event, RunStarted):
                    raise TraceError("the first record is not RunStarted, so this is not the trace of a run")
                yield first
            yield from records

    def _up_to(self, folder: Path, at: int, digest: str) -> Iterator[Record]:
        """Yield the records of a file up to number ``at``, whose digest must match the fork's."""
        reader = TraceReader(folder / TRACE)
        for record in reader:
            if record.seq == at and reader.digest != digest:
                break
            self.digest, self.read_bytes = reader.digest, reader.read_bytes
            yield record
            if record.seq == at:
                return
        if digest:
            raise TraceError(
                f"the run was forked from {folder.name} at record {at}, which has changed since; restore that run "
                "unchanged"
            )
        self.torn_bytes = reader.torn_bytes


def sources(run_dir: Path) -> list[tuple[Path, int, str]]:
    """Return the files that contain a run, oldest first.

    Each entry is the folder, its last valid record, and that record's digest (empty for the last entry).
    """
    files = [(run_dir, _ALL, "")]
    folder = run_dir
    for _ in range(_GENERATIONS):
        fork = begun_by(folder)
        if fork is None:
            return files[::-1]
        folder = parent_of(folder, fork)
        if files[-1][1] <= fork.at:  # cut before the parent's own fork point: none of the parent's own records are used
            files[-1] = (folder, *files[-1][1:])
        else:
            files.append((folder, fork.at, fork.digest))
    raise TraceError(
        f"the run {run_dir.name} has more than {_GENERATIONS} generations of parents, so its trace is invalid"
    )


def begun_by(run_dir: Path) -> RunForked | None:
    """Return the fork that a run's file begins with, or None if the run is not a fork."""
    try:
        with open_regular(run_dir / TRACE) as file:
            return origin(file.readline(LONGEST_BYTES))
    except FileNotFoundError as error:
        raise unbegun(run_dir) from error
    except OSError as error:
        raise TraceError(f"the trace {run_dir / TRACE} cannot be read: {error.strerror}") from error


def came_from(run_dir: Path) -> str:
    """Return the id of the run from which a fork or an edited program started. Empty for other runs.

    Raise TraceError if the run has no trace, or its first record is broken.
    """
    fork = begun_by(run_dir)
    if fork is not None:
        return fork.parent
    records = (record.event for record in islice(TraceReader(run_dir / TRACE), 2))
    start = next((event for event in records if isinstance(event, ProgramStarted)), None)
    return "" if start is None or start.continued is UNSET else start.continued.parent


def parent_of(run_dir: Path, fork: RunForked) -> Path:
    """Return the folder of the run that another run was forked from. Raise TraceError if the parent does not exist."""
    runs = run_dir.resolve().parent
    name = fork.parent
    plain = name not in ("", ".", "..") and not {"/", "\0"} & set(name) and len(name.encode()) <= 255
    if not plain or not (runs / name / TRACE).is_file():
        raise TraceError(f"the run was forked from {name[:200]}, which is not in {runs}; restore it there")
    return runs / name
