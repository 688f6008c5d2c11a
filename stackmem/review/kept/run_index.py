"""The rows of a folder of runs, kept current: a finished run is read once, and again only if it changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from stackmem.core.errors import UsageError
from stackmem.run.run_folder import TRACE
from stackmem.trace.lock import INTERRUPTED, RUNNING, lock_of

from .run_list import UNBEGUN, RunRow, measured, name_of, run_folders, run_row

_OPEN = (RUNNING, INTERRUPTED, UNBEGUN)
_UNSETTLED = -1
_MEASURED_AT_ONCE = 500


class RunIndex:
    """The runs of one folder, or of its direct subfolders, as in a bench. Safe to use from several threads.

    ``folder`` is the folder of the runs, or of the folders with runs.
    """

    def __init__(self, folder: Path, *, nested: bool = False) -> None:
        """Start without rows. A missing folder contains no runs."""
        self.folder, self._nested = folder, nested
        # number of runs that ``refresh`` still has to read for the first time
        self.version = self.unread = 0  # counts the changes that ``refresh`` found
        self._lock = Lock()
        self._rows: dict[str, tuple[int, RunRow, Path]] = {}
        self._measured: dict[str, int] = {}  # modification times of the folders that were measured

    @property
    def rows(self) -> dict[str, RunRow]:
        """The known rows by the run's path below the folder, in no particular order."""
        return {name: row for name, (_, row, _) in self._rows.copy().items()}

    def folder_of(self, run: str) -> Path | None:
        """Return the folder of a run that is listed under this path, or None."""
        entry = self._rows.get(run)
        return entry[2] if entry else None

    def refresh(self) -> None:
        """Read the folder again, the newest runs first. Each row is available as soon as it is read."""
        with self._lock:
            there = dict(self._folders())
            removed = self._rows.keys() - there.keys()
            for run in removed:
                del self._rows[run]
                self._measured.pop(run, None)
            self.version += bool(removed)
            self.unread = len(there.keys() - self._rows.keys())
            for run, folder in there.items():
                self._look(run, folder)

    def measure(self) -> None:
        """Add what ``refresh`` leaves out to the rows of finished runs: the request and the size.

        This takes longer than everything else, and a list can be shown before.
        """
        ended = [(run, *values) for run, values in self._rows.copy().items() if values[0] != _UNSETTLED]
        unmeasured = [entry for entry in ended if self._measured.get(entry[0]) != entry[1]]
        for at in range(0, len(unmeasured), _MEASURED_AT_ONCE):
            batch = unmeasured[at : at + _MEASURED_AT_ONCE]
            rows = measured([(folder, row) for _, _, row, folder in batch])
            with self._lock:
                for (run, changed, row, folder), measured_row in zip(batch, rows, strict=True):
                    if self._rows.get(run) == (changed, row, folder):
                        self._rows[run] = (changed, measured_row, folder)
                        self._measured[run] = changed
                self.version += 1

    def _folders(self) -> Iterator[tuple[str, Path]]:
        if not self._nested:
            yield from ((name_of(folder), folder) for folder in _newest(self.folder))
            return
        try:
            parents = sorted(path for path in self.folder.iterdir() if path.is_dir())
        except OSError:
            return
        for parent in parents:
            yield from ((f"{name_of(parent)}/{name_of(folder)}", folder) for folder in _newest(parent))

    def _look(self, run: str, folder: Path) -> None:
        cached = self._rows.get(run)
        try:
            changed = folder.stat().st_mtime_ns
        except OSError:
            return
        if cached and cached[0] == changed:
            return
        row = run_row(folder)
        # Only the end of a run writes its result and removes its lock, and both change the folder's modification time.
        final = row.outcome not in _OPEN and not os.access(lock_of(f"{folder}/{TRACE}"), os.F_OK)
        if cached is None or cached[1] != row:
            self.version += 1
        self.unread -= cached is None
        self._rows[run] = (changed if final else _UNSETTLED, row, folder)


def _newest(folder: Path) -> list[Path]:
    try:
        return run_folders(folder)[::-1]
    except UsageError:
        return []
