"""What all runs of a conversation know about the user's folder. The first run of such a family stores it.

Rule 1: ``/undo`` and ``/fork`` continue in another run for the same folder. The common version is the folder as the
    family knows it: as it was applied last, with the user's changes that were taken in.
Rule 2: The log lists the user's changes. Each run of the family takes in those that it does not have yet, so an undo
    never reverts the user's own work (see ``doors.following``).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from stackmem.core.errors import TraceError, WorkspaceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular
from stackmem.history.history import History
from stackmem.history.objects import Node
from stackmem.run.run_folder import APPLIED, FOLDER_LOG, HISTORY
from stackmem.run.stored_request import read_request
from stackmem.trace.lineage import came_from

_GENERATIONS = 200
MAX_LOG_BYTES = 64 * 1024 * 1024


class Applied(msgspec.Struct, frozen=True):
    """The tree with the common version."""

    tree: str
    # the run of the tree; empty if an older version wrote this, then it is the run whose directory contains it
    run: str = ""


class Taken(msgspec.Struct, frozen=True):
    """Changes of the user: the changed files before and after, as plain trees of a run's history."""

    run: str
    before: str
    after: str


def applied_last(run_dir: Path, first: Path) -> Applied | None:
    for path in (first, run_dir):  # older versions wrote into the run's own directory
        with suppress(OSError, msgspec.DecodeError):
            last = decode_json(read_regular(path / APPLIED), Applied)
            if is_plain_name(last.run or path.name):
                return Applied(last.tree, last.run or path.name)
    return None


def history_of(run_dir: Path) -> History:
    if not (run_dir / HISTORY).is_dir():
        raise WorkspaceError(f"the run {run_dir.name} has no history")
    request = read_request(run_dir)
    return History(run_dir / HISTORY, Path(request.workspace), request.leave_out)


def first_of_family(run_dir: Path) -> Path:
    """Return the directory of the run that all forks of a conversation descend from."""
    path = run_dir
    for _ in range(_GENERATIONS):
        try:
            parent = came_from(path)
        except TraceError:
            break
        if not is_plain_name(parent) or not (run_dir.parent / parent).is_dir():
            break
        path = run_dir.parent / parent
    return path


def is_plain_name(name: str) -> bool:
    """Return whether ``name`` is a plain directory name, not a path, so that it cannot leave the runs directory."""
    return name not in ("", ".", "..") and not {"/", "\0"} & set(name)


class Family:
    """The family of one run.

    ``run_dir`` is the directory of the run. ``first`` is the directory of the first run. ``history`` is the history of
    the run.
    """

    def __init__(self, run_dir: Path, history: History) -> None:
        self.run_dir, self.first = run_dir, first_of_family(run_dir)
        self.history = history

    def log(self) -> list[Taken]:
        """Return the user's changes, oldest first."""
        try:
            lines = read_regular(self.first / FOLDER_LOG, MAX_LOG_BYTES).split(b"\n")[:-1]
            return [decode_json(line, Taken) for line in lines]
        except (OSError, msgspec.DecodeError):
            return []

    def files_taken(self, entry: Taken) -> tuple[dict[bytes, Node], dict[bytes, Node]]:
        """Return the changed files of a log entry, before and after. Both are empty if the run was removed."""
        if not is_plain_name(entry.run):
            return {}, {}
        try:
            own = entry.run == self.run_dir.name
            history = self.history if own else history_of(self.run_dir.parent / entry.run)
            return history.listed(entry.before), history.listed(entry.after)
        except (TraceError, WorkspaceError, OSError):
            return {}, {}
