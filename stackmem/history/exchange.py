"""Replaces files of a folder, all or none, without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from msgspec import Struct

from stackmem.foreign.files import read_regular

from .objects import EXECUTABLE, FILE, LINK, Node, object_id

STAGE = ".stackmem-apply"  # inside the folder, because renames only work within one file system
_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathState(Struct, frozen=True):
    """Current state of a path."""

    node: Node | None  # None if the path is not a file or link
    content: bytes = b""  # for a link, its target
    # path of what is in the way of a file or folder: the path itself if it is a folder or FIFO, or a file or link among
    # its parents; empty if there is none
    obstacle: bytes = b""
    permissions: int = 0  # of a regular file
    owner: tuple[int, int] = (-1, -1)  # user and group


def look(root: int, path: bytes) -> PathState:
    """Return the state of a path below an open folder, without following links.

    Raise OSError if the path cannot be read.
    """
    folder = os.dup(root)
    try:
        at = b""
        *parents, name = path.split(b"/")
        for part in parents:
            at = at + b"/" + part if at else part
            try:
                inner = os.open(part, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                return PathState(None)
            except NotADirectoryError:
                return PathState(None, obstacle=at)
            os.close(folder)
            folder = inner
        return _look_at(folder, name, path)
    finally:
        os.close(folder)


def _look_at(folder: int, name: bytes, path: bytes) -> PathState:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return PathState(None)
    owner = (status.st_uid, status.st_gid)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=folder)
        return PathState(Node(LINK, object_id("blob", target)), target, owner=owner)
    if not stat.S_ISREG(status.st_mode):
        return PathState(None, obstacle=path)
    content = read_regular(name, follow=False, dir_fd=folder)
    mode = EXECUTABLE if status.st_mode & 0o100 else FILE
    return PathState(Node(mode, object_id("blob", content)), content, permissions=status.st_mode & 0o777, owner=owner)


class FileExchange:
    """An exchange of files: prepared in a staging folder, then done by renames, each with an undo step."""

    def __init__(self, root: int, stage: int) -> None:
        """``root`` and ``stage`` are open folders on one file system; ``stage`` is empty."""
        self._root = root
        self._stage = stage
        self._undo: list[Callable[[], None]] = []

    def run(
        self, before: Mapping[bytes, PathState], after: Mapping[bytes, Node | None], contents: Mapping[bytes, bytes]
    ) -> None:
        """Replace the ``before`` states by the ``after`` nodes; None means that the path is removed.

        Raise OSError if a step failed. The folder is as it was before.
        """
        fresh = [path for path, node in after.items() if node is not None]
        removed = [path for path, node in after.items() if node is None]
        for number, path in enumerate(fresh):
            node = after[path]
            if node is not None:
                self._prepare(b"new%d" % number, node, contents[path], before[path])
        try:
            for number, path in enumerate(removed):
                self._remove(path, b"gone%d" % number)
            for number, path in enumerate(fresh):
                if before[path].obstacle == path:
                    self._clear(path)
                self._install(path, b"new%d" % number, b"old%d" % number, before[path])
        except BaseException:
            for step in reversed(self._undo):
                step()
            raise
        for path in removed:
            self._prune(path)

    def _prepare(self, name: bytes, node: Node, content: bytes, before: PathState) -> None:
        """Write the new file to the staging folder, with permissions and owner of the file it replaces."""
        if node.mode == LINK:
            os.symlink(content, name, dir_fd=self._stage)
            return
        executable = node.mode == EXECUTABLE
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(name, flags, 0o777 if executable else 0o666, dir_fd=self._stage)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            if before.permissions:
                mode = before.permissions & ~0o111
                unchanged = bool(before.permissions & 0o100) == executable
                os.fchmod(fd, before.permissions if unchanged else mode | (mode & 0o444) >> 2 if executable else mode)
            self._give(fd, before.owner)

    def _give(self, file: int, owner: tuple[int, int]) -> None:
        """Set the owner: new files created by root belong to the folder's owner, changed files keep their owner."""
        if owner == (-1, -1) and os.geteuid() == 0:
            status = os.fstat(self._root)
            owner = status.st_uid, status.st_gid
        with suppress(PermissionError):
            os.chown(file, *owner)

    def _remove(self, path: bytes, aside: bytes) -> None:
        with self._parent(path) as (folder, name):
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=self._stage)
        self._undo.append(partial(self._put, aside, path))

    def _install(self, path: bytes, new: bytes, old: bytes, before: PathState) -> None:
        with self._parent(path, make=True) as (folder, name):
            if before.node is None:
                _link_or_rename(new, name, self._stage, folder)
                self._undo.append(partial(self._take_away, path))
            else:
                _link_or_copy(name, old, folder, self._stage, before)
                os.rename(new, name, src_dir_fd=self._stage, dst_dir_fd=folder)
                self._undo.append(partial(self._put, old, path))

    def _put(self, aside: bytes, path: bytes) -> None:
        with self._parent(path) as (folder, name):
            os.rename(aside, name, src_dir_fd=self._stage, dst_dir_fd=folder)

    def _take_away(self, path: bytes) -> None:
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def _make_folder(self, parent: int, name: bytes, path: bytes) -> None:
        os.mkdir(name, dir_fd=parent)
        self._undo.append(partial(self._remove_folder, path))
        if os.geteuid() == 0:
            status = os.fstat(self._root)
            os.chown(name, status.st_uid, status.st_gid, dir_fd=parent, follow_symlinks=False)

    def _remove_folder(self, path: bytes) -> None:
        with self._parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def _clear(self, path: bytes) -> None:
        """Remove a folder in place of a new file. It must contain only empty folders, otherwise the exchange fails."""
        for at, names, _, folder in os.fwalk(path, topdown=False, dir_fd=self._root):
            for name in names:
                self._remove_empty(folder, name, at + b"/" + name)
        with self._parent(path) as (folder, name):
            self._remove_empty(folder, name, path)

    def _remove_empty(self, parent: int, name: bytes, path: bytes) -> None:
        os.rmdir(name, dir_fd=parent)
        self._undo.append(partial(self._make_again, path))

    def _make_again(self, path: bytes) -> None:
        with self._parent(path) as (folder, name):
            os.mkdir(name, dir_fd=folder)

    def _prune(self, path: bytes) -> None:
        """Remove parent folders that became empty, like git."""
        with suppress(OSError):
            while path := path.rpartition(b"/")[0]:
                self._remove_folder(path)

    @contextmanager
    def _parent(self, path: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """Open the parent folder of a path. Yields it with the file's name."""
        *parents, last = path.split(b"/")
        folder = os.dup(self._root)
        try:
            for number, name in enumerate(parents):
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    if not make:
                        raise
                    self._make_folder(folder, name, b"/".join(parents[: number + 1]))
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, last
        finally:
            os.close(folder)


def _link_or_rename(new: bytes, name: bytes, stage: int, folder: int) -> None:
    """Move a new file into place. A hard link, unlike a rename, never replaces a file that appeared in the meantime."""
    try:
        os.link(new, name, src_dir_fd=stage, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.rename(new, name, src_dir_fd=stage, dst_dir_fd=folder)


def _link_or_copy(name: bytes, old: bytes, folder: int, stage: int, before: PathState) -> None:
    """Keep the file that is about to be replaced."""
    try:
        os.link(name, old, src_dir_fd=folder, dst_dir_fd=stage, follow_symlinks=False)
        return
    except OSError:  # a file system without hard links, or another user's file
        pass
    if before.node is not None and before.node.mode == LINK:
        os.symlink(before.content, old, dir_fd=stage)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(old, flags, before.permissions, dir_fd=stage), "wb") as file:
        file.write(before.content)
