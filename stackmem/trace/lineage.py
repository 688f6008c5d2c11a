"""A run's whole history: its own records, and before them those it shares with the run it was forked from.

A fork's file begins with ``RunForked`` and continues its parent's chain. So the parent's lines up to the cut, followed
by the fork's own, are one whole trace as well: a packed run is kept like that, and has no parent to look for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import UNSET

from stackmem.core.facts import RunForked, RunStarted
from stackmem.core.program_facts import ProgramStarted
from stackmem.errors import TraceError
from stackmem.foreign.files import open_regular

from .record import Record, origin
from .store import LONGEST_BYTES, TraceReader, unbegun

TRACE = "trace.jsonl"
HISTORY = "history.git"
_GENERATIONS = 200
_ALL = 1 << 62


class RunReader:
    """Reads a run from its folder, parents first; they stand in the same runs directory."""

    def __init__(self, run_dir: Path) -> None:
        self.folder = run_dir  # the run's
        self.torn_bytes = 0  # as ``TraceReader``, of the run's own file
        self.digest = ""  # digest of the last record read
        self.read_bytes = 0  # as ``TraceReader``, of the run's own file

    def __iter__(self) -> Iterator[Record]:
        """The records in order, the shared ones too."""
        for number, (folder, at, digest) in enumerate(sources(self.folder)):
            records = self._up_to(folder, at, digest)
            if number == 0:
                first = next(records)
                if not isinstance(first.event, RunStarted):
                    raise TraceError("the first record is not RunStarted; this is no trace of a run")
                yield first
            yield from records

    def _up_to(self, folder: Path, at: int, digest: str) -> Iterator[Record]:
        """A file's records up to number ``at``, whose digest must be the one that the fork names."""
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
                f"the run was forked from {folder.name} at record {at}, which has changed since; bring back that run "
                "as it was"
            )
        self.torn_bytes = reader.torn_bytes


def sources(run_dir: Path) -> list[tuple[Path, int, str]]:
    """The files that hold a run, oldest first: folder, last record that counts, and its digest (nothing at the end)."""
    found = [(run_dir, _ALL, "")]
    folder = run_dir
    for _ in range(_GENERATIONS):
        fork = begun_by(folder)
        if fork is None:
            return found[::-1]
        folder = parent_of(folder, fork)
        if found[-1][1] <= fork.at:  # cut before the parent itself was: nothing of the parent's own counts
            found[-1] = (folder, *found[-1][1:])
        else:
            found.append((folder, fork.at, fork.digest))
    raise TraceError(f"the run {run_dir.name} has more than {_GENERATIONS} generations of parents; no fork made it so")


def begun_by(run_dir: Path) -> RunForked | None:
    """The fork that a run's file begins with; None for a run that stands alone."""
    try:
        with open_regular(run_dir / TRACE) as file:
            return origin(file.readline(LONGEST_BYTES))
    except FileNotFoundError as error:
        raise unbegun(run_dir) from error
    except OSError as error:
        raise TraceError(f"the trace {run_dir / TRACE} cannot be read: {error.strerror}") from error


def came_from(run_dir: Path) -> str:
    """The id of the run that a fork or an edited program began from; empty for any other run."""
    fork = begun_by(run_dir)
    if fork is not None:
        return fork.parent
    records = (record.event for record in islice(TraceReader(run_dir / TRACE), 2))
    begun = next((event for event in records if isinstance(event, ProgramStarted)), None)
    return "" if begun is None or begun.continued is UNSET else begun.continued.parent


def parent_of(run_dir: Path, fork: RunForked) -> Path:
    """The folder of the run that another one was forked from."""
    runs = run_dir.resolve().parent
    name = fork.parent
    plain = name not in ("", ".", "..") and not {"/", "\0"} & set(name) and len(name.encode()) <= 255
    if not plain or not (runs / name / TRACE).is_file():
        raise TraceError(f"the run was forked from {name[:200]}, which is not in {runs}; bring it back")
    return runs / name
