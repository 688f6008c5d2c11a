"""Merges the files of parallel frames into the workspace, one frame after another in push order.

Rule 1: A file that only one side changed is taken as it is. Text that both changed is merged line by line.
Rule 2: No version is lost. Lines that both changed stay in the file between conflict markers. A version that cannot
    be merged, such as a binary file, is written to a file next to the other one.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.core.parallel.facts import FramesMerged, MergedFile
from stackmem.core.requests import MergeFrames, ReturnedFiles
from stackmem.history.exchange import PathState, look
from stackmem.history.following.merging import merge_modes, merge_texts
from stackmem.history.history import History, PathChange
from stackmem.history.objects import FILE, LINK, Node
from stackmem.history.restore import content_of, put_file, remove_empty_parents, remove_file
from stackmem.history.walk import path_bytes
from stackmem.workspace.clip import shown_name

from ..opened import Opened
from ..run_folder import HISTORY

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")
_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)


def merge_frames(effect: MergeFrames, opened: Opened) -> FramesMerged:
    """Merge the files of each frame into the workspace.

    Raise WorkspaceError if a frame's files are missing, or the workspace cannot be written.
    """
    history, world = opened.history, opened.world
    if not isinstance(history, History):
        raise WorkspaceError("parallel frames need a workspace on disk; choose another level with --isolation")
    overlay = history.over
    files: list[MergedFile] = []
    try:
        root = os.open(opened.places.work, _FOLDER) if overlay is None else os.dup(overlay.view.fd)
        try:
            for frame in effect.frames:
                files += _merge_frame(frame, effect.tree, opened.places.run.parent / frame.run, root)
        finally:
            os.close(root)
    except OSError as error:
        raise WorkspaceError(
            f"the files of the frames cannot be merged into {opened.places.work} ({error.strerror}); free disk space "
            "or fix the permissions, then resume the run"
        ) from error
    tree = history.snapshot()
    return FramesMerged(tree, {path: world.digest(path) for path in effect.sources}, tuple(files))


def _merge_frame(frame: ReturnedFiles, before: str, run: Path, root: int) -> Iterator[MergedFile]:
    if not frame.tree or frame.tree == before:
        return
    git_dir = run / HISTORY
    if not git_dir.is_dir():
        raise WorkspaceError(f"the files of the frame {frame.name!r} are missing ({git_dir}); restore that run")
    changes = History(git_dir, run / "workspace").changed(before, frame.tree)
    for change in sorted(changes, key=lambda change: bool(change.after_mode)):  # a deleted file may be in the way
        merged = _FileMerge(root, git_dir, frame.name, change).run()
        if merged is not None:
            yield merged


class _FileMerge:
    """The merge of one file of a frame into the workspace."""

    def __init__(self, root: int, git_dir: Path, name: str, change: PathChange) -> None:
        self._root, self._git_dir, self._name = root, git_dir, name
        self._path, self._shown = path_bytes(change.path), change.path
        self._base = Node(change.before_mode, change.before) if change.before_mode else None
        self._later = Node(change.after_mode, change.after) if change.after_mode else None

    def run(self) -> MergedFile | None:
        """Merge the file. Return None if only the frame had changed it."""
        here, later = look(self._root, self._path), self._later
        if here.node == later and not here.obstacle:
            return None
        if here.node == self._base:
            if later is None:
                remove_file(self._root, self._path)
                remove_empty_parents(self._root, self._path)
                return None
            return None if self._can_put(self._path, later) else self._put_beside(later, here)
        if later is None:
            return MergedFile(self._shown, self._name, "kept")
        if here.node is None:
            if here.obstacle or not self._can_put(self._path, later):
                return self._put_beside(later, here)
            return MergedFile(self._shown, self._name, "restored")
        return self._merge_lines(here, here.node, later) or self._put_beside(later, here)

    def _merge_lines(self, here: PathState, node: Node, later: Node) -> MergedFile | None:
        """Merge two texts. Return None if one of them is not text."""
        mode = merge_modes(self._base or Node(FILE, ""), node, later)
        if mode is None or LINK in (node.mode, later.mode):
            return None
        base = content_of(self._git_dir, self._base.id) if self._base is not None else b""
        labels = ("merged so far", f"frame {self._name}")
        merge = merge_texts(base, here.content, content_of(self._git_dir, later.id), labels)
        if merge is None:
            return None
        put_file(self._root, self._path, mode, merge.content)
        return MergedFile(self._shown, self._name, "marked" if merge.conflicts else "merged")

    def _put_beside(self, later: Node, here: PathState) -> MergedFile:
        """Write the frame's version under another name, next to what is in its way."""
        obstacle = here.obstacle or self._path
        rest = self._path[len(obstacle) :]
        suffix = _UNUSUAL.sub("-", self._name)
        for number in range(1, 1_000):
            other = obstacle + f".{suffix}{f'-{number}' if number > 1 else ''}".encode()
            state = look(self._root, other)
            if state.node is None and not state.obstacle:
                break
        put_file(self._root, other + rest, later.mode, content_of(self._git_dir, later.id))
        return MergedFile(self._shown, self._name, "beside", shown_name(other + rest))

    def _can_put(self, path: bytes, node: Node) -> bool:
        """Write the frame's version. Return False if a folder or a file is in its way."""
        try:
            put_file(self._root, path, node.mode, content_of(self._git_dir, node.id))
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                return False
            raise
        return True
