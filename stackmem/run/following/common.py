"""What all runs of a conversation know about the user's folder. The first run of such a family stores it.

Rule 1: ``/undo`` and ``/fork`` continue in another run for the same folder. The common version is the folder as the
    family knows it: as it was applied last, with the user's changes that were taken in.
Rule 2: The log lists the user's changes. Each run of the family takes in those that it does not have yet, so an undo
    never reverts the user's own work.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError, WorkspaceError
from stackmem.foreign.files import descriptor_of_regular, read_regular
from stackmem.history.history import History
from stackmem.history.objects import REMOVED, Node
from stackmem.history.restore import content_of
from stackmem.run.request import read_request
from stackmem.run.run_folder import APPLIED, FOLDER_LOG, HISTORY
from stackmem.trace.lineage import came_from
from stackmem.trace.private import write_json

_GENERATIONS = 200
_MAX_LOG_BYTES = 64 * 1024 * 1024


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
            if _is_plain(last.run or path.name):
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
        if not _is_plain(parent) or not (run_dir.parent / parent).is_dir():
            break
        path = run_dir.parent / parent
    return path


def _is_plain(name: str) -> bool:
    """Return whether ``name`` is a plain directory name, not a path, so that it cannot leave the runs directory."""
    return name not in ("", ".", "..") and not {"/", "\0"} & set(name)


class Family:
    """The family of one run.

    Attributes:
        run_dir: The directory of the run.
        first: The directory of the first run.
    """

    def __init__(self, run_dir: Path, history: History) -> None:
        self.run_dir, self.first = run_dir, first_of_family(run_dir)
        self._history = history
        runs = dict.fromkeys(each.run for each in self.log() if _is_plain(each.run))
        self._places = [run_dir, *(run_dir.parent / name for name in runs if name != run_dir.name)]

    def common(self, begun: str) -> dict[bytes, Node]:
        """Return the files of the common version. ``begun`` is the initial tree of the run."""
        last = applied_last(self.run_dir, self.first)
        if last is None:
            return self._history.files(begun)
        if last.run == self.run_dir.name:
            return self._history.files(last.tree)
        try:
            other = history_of(self.run_dir.parent / last.run)
            files = self._history.base_files() | other.base_files() | other.listed(last.tree)
        except (TraceError, WorkspaceError, OSError):
            return self._history.files(begun)
        return {path: node for path, node in files.items() if node.mode != REMOVED}

    @property
    def is_known(self) -> bool:
        """Whether the family has a common version that differs from the initial folder."""
        return (self.first / APPLIED).exists()

    def set_common(self, files: dict[bytes, Node]) -> None:
        write_json(self.first / APPLIED, Applied(self._history.tree_of(files), self.run_dir.name))

    def log(self) -> list[Taken]:
        """Return the user's changes, oldest first."""
        try:
            lines = read_regular(self.first / FOLDER_LOG, _MAX_LOG_BYTES).split(b"\n")[:-1]
            return [decode_json(line, Taken) for line in lines]
        except (OSError, msgspec.DecodeError):
            return []

    def add_to_log(self, before: dict[bytes, Node], after: dict[bytes, Node]) -> None:
        trees = self._history.plain_tree(before), self._history.plain_tree(after)
        line = msgspec.json.encode(Taken(self.run_dir.name, *trees)) + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = descriptor_of_regular(self.first / FOLDER_LOG, flags)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def files_taken(self, entry: Taken) -> tuple[dict[bytes, Node], dict[bytes, Node]]:
        """Return the changed files of a log entry, before and after. Both are empty if the run was removed."""
        if not _is_plain(entry.run):
            return {}, {}
        try:
            own = entry.run == self.run_dir.name
            history = self._history if own else history_of(self.run_dir.parent / entry.run)
            return history.listed(entry.before), history.listed(entry.after)
        except (TraceError, WorkspaceError, OSError):
            return {}, {}

    def content(self, node: Node) -> bytes | None:
        """Return a file's content, from the store of whichever run has it."""
        for path in self._places:
            with suppress(WorkspaceError):
                return content_of(path / HISTORY, node.id)
        return None
