"""Walks through an untrusted workspace: follows no links, does not block on FIFOs, opens nothing outside."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.beneath import Opener, opener_for
from stackmem.workspace.clip import meant_name, shown_name
from stackmem.workspace.overlay.mount import is_whiteout

from .ignored import IgnoreRules
from .objects import Node

CACHES = frozenset(
    {b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".hypothesis", b".ipynb_checkpoints"}
)
# Folders of installed packages, and the files that distinguish an installer's folder from others of that name.
_MARKS = {
    b".venv": (b"pyvenv.cfg",),
    b"venv": (b"pyvenv.cfg",),
    b"node_modules": (b".package-lock.json", b".yarn-integrity", b".yarn-state.yml", b".modules.yaml"),
}
_NAMES = sys.getfilesystemencoding()
_LEVELS = 256  # maximum depth; two thousand levels cost git and the kernel seconds
_READ_BYTES = 1024 * 1024  # per read
_MAX_NEW = 200_000  # limit for added files and folders, because more would delay every step
_MAX_NAMED = 1_000  # limit for reported entries
MISSING_ERRORS = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EXDEV,
}  # the path has changed its type or disappeared since


Key = tuple[int, int, int, int, int]


class Seen(Struct, frozen=True):
    """Content of a path at the last scan."""

    node: Node  # its content
    key: Key | tuple[()] = ()  # mode, size, times and inode at the last scan; empty if it must be read again


def stat_key(status: os.stat_result) -> Key:
    # include ctime, because a command can reset mtime but not ctime
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class LeftOut(Struct, frozen=True):
    """A path that could not be kept."""

    path: str  # as spelled by ``shown_name``
    reason: str  # readable, for a report
    bytes: int = 0  # its size; 0 if unknown, or for a folder


class _Folder(Struct, frozen=True):
    """The entries of one folder that may be kept."""

    folders: list[bytes]
    files: list[tuple[bytes, os.stat_result]]


class Walk:
    """Walks level by level, so that few queries to git are needed."""

    def __init__(
        self,
        root: int,
        before: Mapping[bytes, Seen],
        known_folders: set[bytes],
        leave_out: set[bytes],
        rules: IgnoreRules | None,
    ) -> None:
        self.left_out: list[LeftOut] = []  # what could not be kept so far
        # unchanged files so far; ``files`` yields the others
        self.unchanged: list[bytes] = []
        self.unchanged_bytes = 0  # their total size
        self._root = root
        self._open: Opener = opener_for(root)
        self._before = before
        self._known_folders = known_folders
        self._leave_out_folders = leave_out
        self._first = rules is None
        self._rules = rules
        self._new_left = _MAX_NEW
        self._unnamed = 0
        self._kept: list[bytes] = []  # paths that keep their previous version; folders end in "/"

    def files(self) -> Iterator[tuple[bytes, os.stat_result]]:
        level = [b""]
        for _ in range(_LEVELS):
            folders = [self._folder(path) for path in level]
            ignored = self._ignored(folders)
            level = []
            for folder in folders:
                level += [path for path in folder.folders if path not in ignored]
                yield from (file for file in folder.files if file[0] not in ignored)
        for path in level:
            self.leave_out(path, f"below {_LEVELS} folders")
        if self._new_left < 0:
            self.left_out.append(LeftOut(".", f"{-self._new_left} new files and folders beyond the first {_MAX_NEW}"))

    def leave_out(self, path: bytes, reason: str, size: int = 0) -> None:
        is_known = path in self._before or path in self._known_folders
        if is_known:
            self._kept.append(path)
        self._name(LeftOut(shown_name(path), reason, size), is_known=is_known)

    def _name(self, entry: LeftOut, *, is_known: bool) -> None:
        if is_known or len(self.left_out) < _MAX_NAMED:
            self.left_out.append(entry)
        else:
            self._unnamed += 1

    def report(self) -> tuple[LeftOut, ...]:
        """Return what could not be kept; if too much, the first entries and how many more there are."""
        more = (LeftOut(".", f"{self._unnamed} more, for such reasons"),) if self._unnamed else ()
        return (*self.left_out, *more)

    def kept_as_before(self, seen: Collection[bytes]) -> list[bytes]:
        """Return the known files at or below paths that were left out."""
        exact = {path for path in self._kept if path in self._before}
        folders = tuple(path + b"/" for path in self._kept if path in self._known_folders)
        inside = (path for path in self._before if folders and path.startswith(folders))
        return [path for path in exact.union(inside) if path not in seen]

    def content(self, path: bytes, most: int) -> bytes:
        """Read at most ``most`` bytes of a regular file.

        Raise OSError if the file cannot be read, or is no longer a regular file (ENOENT).
        """
        fd = self._open(self._root, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.ENOENT, "no regular file any more")
            parts: list[bytes] = []
            while most > 0 and (part := os.read(fd, min(most, _READ_BYTES))):
                parts.append(part)
                most -= len(part)
            return b"".join(parts)
        finally:
            os.close(fd)

    def target(self, path: bytes) -> bytes:
        fd = self._open(self._root, path, os.O_PATH | os.O_NOFOLLOW)
        try:
            return os.readlink(b"", dir_fd=fd)
        finally:
            os.close(fd)

    def _folder(self, path: bytes) -> _Folder:
        folder = _Folder([], [])
        try:
            fd = self._open(self._root, path or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            if not path:
                raise WorkspaceError(f"the workspace cannot be read ({error.strerror}); make it readable") from error
            if error.errno not in MISSING_ERRORS:
                self.leave_out(path, reason_of(error))
            return folder
        try:
            self._sort_entries(fd, path, folder)
        except OSError as error:
            self.leave_out(path, reason_of(error))
            return _Folder([], [])
        finally:
            os.close(fd)
        return folder

    def _sort_entries(self, fd: int, path: bytes, folder: _Folder) -> None:
        prefix = path + b"/" if path else b""
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name.encode(_NAMES, "surrogateescape")  # like os.fsencode, but three times as fast
                child = prefix + name
                previous = self._before.get(child)
                if previous is None and name.lower() == b".git":
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if previous is not None and previous.key == stat_key(status):  # fast path for most entries
                    self.unchanged.append(child)
                    self.unchanged_bytes += status.st_size
                    continue
                if self._is_too_much(child):
                    continue
                if stat.S_ISDIR(status.st_mode):
                    if child in self._known_folders or not self._passed_over(fd, child, name):
                        folder.folders.append(child)
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    if stat.S_ISLNK(status.st_mode) and child in self._leave_out_folders:
                        continue
                    if stat.S_ISLNK(status.st_mode) and name.lower() == b".gitmodules":
                        self.leave_out(child, "git refuses a link of this name")
                        continue
                    folder.files.append((child, status))
                elif name == b".gitignore" and not is_whiteout(status):
                    self._rules = None  # git would block on a FIFO forever
                    self.leave_out(child, "not a file; no .gitignore is read now")
                elif not is_whiteout(status):
                    self._name(LeftOut(shown_name(child), "not a file, folder or link"), is_known=False)

    def _is_too_much(self, path: bytes) -> bool:
        """Return whether the limit for new entries is reached and this one is new."""
        if self._first or path in self._before or path in self._known_folders:
            return False
        self._new_left -= 1
        return self._new_left < 0

    def _passed_over(self, parent: int, path: bytes, name: bytes) -> bool:
        """Return whether to skip a folder without known files.

        An initial folder with such a name may be anything (fixtures, the package ``Lib/venv``), so there an installer's
        marker file is required.
        """
        if name in CACHES or path in self._leave_out_folders:
            return True
        if name not in _MARKS or (name != b"venv" and not self._first):
            return name in _MARKS
        return any(_is_there(parent, name + b"/" + mark) for mark in _MARKS[name])

    def _ignored(self, folders: list[_Folder]) -> set[bytes]:
        if self._rules is None:
            return set()
        new = [path for folder in folders for path in folder.folders if path not in self._known_folders]
        new += [path for folder in folders for path, _ in folder.files if path not in self._before]
        try:
            return self._rules.ignored(new)
        except TimeoutError:
            self._rules = None
            self.leave_out(b".gitignore", "its rules take too long; no .gitignore is read now")
            return set()


def path_bytes(name: str) -> bytes:
    """Return the path that ``shown_name`` displays this way."""
    return (meant_name(name) if "\\" in name else None) or os.fsencode(name)


def folders_of(files: Iterable[bytes]) -> set[bytes]:
    """Return all parent folders of the files."""
    parents: set[bytes] = set()
    for path in files:
        parent = path.rpartition(b"/")[0]
        while parent and parent not in parents:
            parents.add(parent)
            parent = parent.rpartition(b"/")[0]
    return parents


def _is_there(parent: int, path: bytes) -> bool:
    try:
        os.stat(path, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def reason_of(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"
