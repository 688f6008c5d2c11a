"""What all runs of a conversation know about the user's folder. The first run of such a family stores it.

Rule 1: ``/undo`` and ``/fork`` continue in another run for the same folder. The common version is the folder as the
    family knows it: as it was applied last, with the user's changes that were taken in.
Rule 2: The log lists the user's changes. Each run of the family takes in those that it does not have yet, so an undo
    never reverts the user's own work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError, WorkspaceError
from stackmem.foreign.files import descriptor_of_regular, read_regular
from stackmem.history.following.inventory import Inventory
from stackmem.history.history import History
from stackmem.history.layer import Overlay
from stackmem.history.objects import REMOVED, Node
from stackmem.history.origin import Origin
from stackmem.history.restore import content_of
from stackmem.run.run_folder import APPLIED, FOLDER_LOG, FOLDER_PENDING, HISTORY
from stackmem.run.stored_request import read_request
from stackmem.trace.lineage import came_from
from stackmem.trace.private import write_json

from .git_following import GitFollower

_GENERATIONS = 200
_MAX_LOG_BYTES = 64 * 1024 * 1024


Files = dict[bytes, Node]


class FollowedFolder(msgspec.Struct, frozen=True):
    """The folder of a conversation, and where its changes go.

    Attributes:
        folder: The user's folder.
        run_dir: The directory of the run.
        work: The workspace on the host, if it is not an overlay.
        history: The history of the workspace.
        leave_out: Folders that the history leaves out.
        own: Folders of stackmem's own files.
        git: Whether the run may read the folder's repository.
        inside: What lets the repository in the workspace follow the folder's, if there is one.
    """

    folder: Path
    run_dir: Path
    work: Path
    history: History
    leave_out: tuple[str, ...]
    own: tuple[Path, ...]
    git: bool
    inside: GitFollower | None = None

    @property
    def over(self) -> Overlay | None:
        return self.history.over


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


class PendingLook(msgspec.Struct, frozen=True):
    """The outcome of a look at the folder, stored before the workspace changes, so that a crash cannot split it.

    Attributes:
        number: The number of the last change in the log afterwards.
        files: The content that files of the workspace get, as a plain tree, with markers for files to remove.
        before, after: The log's new entry, as in ``Taken``; empty if there is none.
        common: The new common version.
        news: The lines about the changes.
    """

    number: int
    files: str
    before: str
    after: str
    common: str
    news: tuple[str, ...]


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

    def pending(self) -> PendingLook | None:
        """Return the outcome of this run's last look, if the fact of that may not be recorded."""
        with suppress(OSError, msgspec.DecodeError):
            return decode_json(read_regular(self.run_dir / FOLDER_PENDING, _MAX_LOG_BYTES), PendingLook)
        return None

    def complete(self, pending: PendingLook) -> None:
        """Store the log entry and the common version of a look, unless an interrupted process did."""
        if pending.before and len(self.log()) < pending.number:
            self._append(Taken(self.run_dir.name, pending.before, pending.after))
        if pending.common:
            write_json(self.first / APPLIED, Applied(pending.common, self.run_dir.name))

    def log(self) -> list[Taken]:
        """Return the user's changes, oldest first."""
        try:
            lines = read_regular(self.first / FOLDER_LOG, _MAX_LOG_BYTES).split(b"\n")[:-1]
            return [decode_json(line, Taken) for line in lines]
        except (OSError, msgspec.DecodeError):
            return []

    def _append(self, entry: Taken) -> None:
        line = msgspec.json.encode(entry) + b"\n"
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


def moves_of(before: Inventory | None, head: tuple[str, str]) -> list[str]:
    """Return a line that says where the repository's HEAD is now, if it moved."""
    if before is None or before.head == head or not head[1]:
        return []
    branch = head[0].removeprefix("refs/heads/")
    return [f"the repository's HEAD is now {head[1][:10]}{f' on {branch}' if branch else ''}"]


def head_of(origin: Origin | None) -> tuple[str, str]:
    return ("", "") if origin is None else (origin.branch, origin.head)


def set_file(files: Files, path: bytes, node: Node | None) -> None:
    if node is None:
        files.pop(path, None)
    else:
        files[path] = node


def paths_in(entries: Iterable[tuple[Files, Files]]) -> set[bytes]:
    """Return all paths in log entries."""
    return {path for before, after in entries for path in {*before, *after}}
