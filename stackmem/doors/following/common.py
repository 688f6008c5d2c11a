"""The folder that a conversation follows, and what its runs took in of it. ``run.following.family`` has the rules."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from stackmem.core.errors import TraceError, WorkspaceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import descriptor_of_regular, read_regular
from stackmem.foreign.private import write_json
from stackmem.history.history import History
from stackmem.history.layer import Overlay
from stackmem.history.objects import REMOVED, Node
from stackmem.history.origin import Origin
from stackmem.history.restore import content_of
from stackmem.run.following.family import (
    MAX_LOG_BYTES,
    Applied,
    Family,
    Taken,
    applied_last,
    history_of,
    is_plain_name,
)
from stackmem.run.run_folder import APPLIED, FOLDER_LOG, FOLDER_PENDING, HISTORY

from .git_following import GitFollower
from .inventory import Inventory

Files = dict[bytes, Node]


class FollowedFolder(msgspec.Struct, frozen=True):
    """The folder of a conversation, and where its changes go."""

    folder: Path  # the user's folder
    run_dir: Path  # the directory of the run
    work: Path  # the workspace on the host, if it is not an overlay
    history: History  # the history of the workspace
    leave_out: tuple[str, ...]  # folders that the history leaves out
    own: tuple[Path, ...]  # folders of stackmem's own files
    git: bool  # whether the run may read the folder's repository
    inside: GitFollower | None = None  # lets the repository in the workspace follow the folder's, if there is one

    @property
    def overlay(self) -> Overlay | None:
        return self.history.over


class PendingLook(msgspec.Struct, frozen=True):
    """The outcome of a look at the folder, stored before the workspace changes, so that a crash cannot split it."""

    number: int  # the number of the last change in the log afterwards
    files: str  # the content that files of the workspace get, as a plain tree, with markers for files to remove
    # before, after: the log's new entry, as in ``Taken``; empty if there is none
    before: str
    after: str
    common: str  # the new common version
    news: tuple[str, ...]  # the lines about the changes


class FollowedFamily(Family):
    """The family of a run that follows the folder."""

    def __init__(self, run_dir: Path, history: History) -> None:
        super().__init__(run_dir, history)
        runs = dict.fromkeys(each.run for each in self.log() if is_plain_name(each.run))
        self._places = [run_dir, *(run_dir.parent / name for name in runs if name != run_dir.name)]

    def common(self, start_tree: str) -> dict[bytes, Node]:
        """Return the files of the common version. ``start_tree`` is the initial tree of the run."""
        last = applied_last(self.run_dir, self.first)
        if last is None:
            return self.history.files(start_tree)
        if last.run == self.run_dir.name:
            return self.history.files(last.tree)
        try:
            other = history_of(self.run_dir.parent / last.run)
            files = self.history.base_files() | other.base_files() | other.listed(last.tree)
        except (TraceError, WorkspaceError, OSError):
            return self.history.files(start_tree)
        return {path: node for path, node in files.items() if node.mode != REMOVED}

    @property
    def is_known(self) -> bool:
        """Whether the family has a common version that differs from the initial folder."""
        return (self.first / APPLIED).exists()

    def pending(self) -> PendingLook | None:
        """Return the outcome of this run's last look, if the fact of that may not be recorded."""
        with suppress(OSError, msgspec.DecodeError):
            return decode_json(read_regular(self.run_dir / FOLDER_PENDING, MAX_LOG_BYTES), PendingLook)
        return None

    def complete(self, pending: PendingLook) -> None:
        """Store the log entry and the common version of a look, unless an interrupted process did."""
        if pending.before and len(self.log()) < pending.number:
            self._append(Taken(self.run_dir.name, pending.before, pending.after))
        if pending.common:
            write_json(self.first / APPLIED, Applied(pending.common, self.run_dir.name))

    def _append(self, entry: Taken) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = descriptor_of_regular(self.first / FOLDER_LOG, flags)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

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
