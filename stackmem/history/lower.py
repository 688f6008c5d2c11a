"""Records the user folder's versions of all files that an overlay's upper folder replaces, each read once when seen.

Hidden paths, caches and installed packages are excluded.
"""

# Paths are bytes here, since a name need not be text.

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from stackmem.foreign.beneath import Opener, opener_for
from stackmem.workspace.clip import shown_name

from .objects import EXECUTABLE, FILE, LINK, Node, ObjectStore
from .selection import DEPENDENCIES
from .walk import CACHES, MISSING_ERRORS, LeftOut

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_MAX_NAMES = 1_000
_COARSE = 5  # Linux's CLOCK_REALTIME_COARSE, the clock of file times; Python has no name for it


class LowerFolder:
    """The user's folder under an overlay."""

    def __init__(self, folder: Path, hidden: Collection[bytes], upper: Path, leave_out: Collection[bytes]) -> None:
        self.base: dict[bytes, Node] = {}  # its recorded files by path; grows with the upper folder
        # paths that did not exist when the run began, even if they were created since, for example by an apply
        self.absent: frozenset[bytes] = frozenset()
        self.left_out: list[LeftOut] = []  # files that could not be kept, with reasons
        self._folder, self._upper = os.fsencode(folder), os.fsencode(upper)
        self._hidden = hidden
        self._leave_out = leave_out
        self._known: set[tuple[bytes, str]] = set()
        self._since = file_clock_ns()

    def trust_until(self, since: int) -> None:
        """Accept files as they were at a ``file_clock_ns``, when the workspace had all changes of the folder."""
        self._since = since

    def look(self, store: ObjectStore, largest_bytes: int, withholds: Callable[[bytes], bool]) -> None:
        """Read the files that were replaced since the last call."""
        self._keep = FileKeeper(open_folder(self._folder), store, largest_bytes, withholds)
        try:
            self._look()
        finally:
            self._keep.close()

    def _look(self) -> None:
        root = os.open(self._upper, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        opened: Opener = opener_for(root)
        todo = [b""]
        try:
            while todo:
                folder = todo.pop()
                with suppress(OSError):  # the census reports it
                    fd = opened(root, folder or b".", _FOLDER)
                    try:
                        todo += self._merged(fd, folder)
                    finally:
                        os.close(fd)
        finally:
            os.close(root)

    def _merged(self, fd: int, folder: bytes) -> list[bytes]:
        """Return the folders that merge with lower ones, and record what the other entries replace."""
        paths = []
        for name in map(os.fsencode, os.listdir(fd)):
            path = folder + b"/" + name if folder else name
            if name in CACHES or path in self._leave_out or name.lower() == b".git":
                continue
            with suppress(FileNotFoundError):
                inside = stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
                if not inside or not self._is_folder(path):
                    self._shadowed(path, "file")
                elif _is_opaque(fd, name):
                    self._shadowed(path, "opaque")
                else:
                    paths.append(path)
        return paths

    def _is_folder(self, path: bytes) -> bool:
        return os.path.isdir(self._folder + b"/" + path) and self._shows(path)  # noqa: PTH112

    def _shows(self, path: bytes) -> bool:
        return not os.path.islink(self._folder + b"/" + path) and path not in self._hidden  # noqa: PTH114

    def _shadowed(self, path: bytes, kind: str) -> None:
        if (path, kind) in self._known:
            return
        self._known.add((path, kind))
        todo = [path]
        while todo:
            at = todo.pop()
            try:
                status = os.lstat(self._folder + b"/" + at)
            except OSError:
                continue
            if at in self._hidden:
                continue
            if stat.S_ISDIR(status.st_mode):
                with suppress(OSError):
                    names = os.listdir(self._folder + b"/" + at)
                    todo += [at + b"/" + name for name in names if not self._is_passed_over(at, name)]
            elif (
                at not in self.base
                and at not in self.absent
                and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))
            ):
                self._take(at, status)

    def _is_passed_over(self, folder: bytes, name: bytes) -> bool:
        return name in CACHES or name.lower() == b".git" or folder + b"/" + name in self._leave_out

    def _take(self, path: bytes, status: os.stat_result) -> None:
        if status.st_ctime_ns >= self._since:
            # It is unknown whether the run's file is based on this text or on the previous one. Recording it as empty
            # ensures that no patch replaces the current file.
            self.base[path] = self._keep.empty()
            self.left_out.append(LeftOut(shown_name(path), "changed in your folder while the run worked on it"))
            return
        try:
            node, reason = self._keep.node(path, status)
        except OSError as error:
            node, reason = None, f"cannot be read: {error.strerror}"
        if node is not None:
            self.base[path] = node
        else:
            self.left_out.append(LeftOut(shown_name(path), reason, status.st_size))


class FileKeeper:
    """Stores files of a folder during one scan."""

    def __init__(self, root: int, store: ObjectStore, largest_bytes: int, withholds: Callable[[bytes], bool]) -> None:
        """``root`` is the open folder, which ``close`` closes."""
        self._root = root
        self._open: Opener = opener_for(self._root)
        self._store, self._largest_bytes, self._withholds = store, largest_bytes, withholds
        self.content = b""  # of the last file

    def close(self) -> None:
        os.close(self._root)

    def empty(self) -> Node:
        return Node(FILE, self._store.add("blob", b""))

    def look(self, path: bytes) -> tuple[Node | None, str]:
        """Store the content that the path has now. Returns None if there is no such file, or with the reason."""
        try:
            fd = self._open(self._root, path, os.O_PATH | os.O_NOFOLLOW)
            try:
                status = os.fstat(fd)
            finally:
                os.close(fd)
            is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            return self.node(path, status) if is_file else (None, "")
        except OSError as error:
            return None, "" if error.errno in MISSING_ERRORS else f"cannot be read: {error.strerror}"

    def node(self, path: bytes, status: os.stat_result) -> tuple[Node | None, str]:
        """Store the path's content and return its node, or the reason why it is not kept."""
        if stat.S_ISLNK(status.st_mode):
            fd = self._open(self._root, path, os.O_PATH | os.O_NOFOLLOW)
            try:
                content, mode = os.readlink(b"", dir_fd=fd), LINK
            finally:
                os.close(fd)
        elif status.st_size > self._largest_bytes:
            return None, f"larger than {self._largest_bytes} bytes"
        else:
            fd = self._open(self._root, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
            with os.fdopen(fd, "rb") as file:
                content, mode = file.read(self._largest_bytes), EXECUTABLE if status.st_mode & 0o100 else FILE
        if self._withholds(content):
            return None, "holds a secret"
        self.content = content
        return Node(mode, self._store.add("blob", content)), ""


def open_folder(folder: bytes) -> int:
    return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _is_opaque(folder: int, name: bytes) -> bool:
    """Return whether a folder of the upper one completely hides the lower one of the same name."""
    try:
        return (
            os.getxattr(b"/proc/self/fd/%d/%s" % (folder, name), "user.overlay.opaque", follow_symlinks=False) == b"y"
        )
    except OSError:
        return False


def file_clock_ns() -> int:
    """Return the timestamp that a file changed now would get; its resolution is some milliseconds."""
    return time.clock_gettime_ns(_COARSE)


def changed_since(
    folder: Path, hidden: Collection[bytes], began_ns: int, leave_out: Collection[bytes] = ()
) -> tuple[str, ...]:
    """Return what has changed in the folder since ``began_ns``, a ``file_clock_ns``, as far as a run can see it.

    These are files by name, and folders that were renamed or whose entries changed.
    """
    root = os.fsencode(folder)
    changed: list[str] = []
    with suppress(OSError):
        changed += ["./"] * (os.lstat(root).st_ctime_ns >= began_ns)
    todo = [b""]
    while todo and len(changed) < _MAX_NAMES:
        at = todo.pop()
        with suppress(OSError), os.scandir(root + b"/" + at if at else root) as entries:
            for entry in entries:
                path = at + b"/" + entry.name if at else entry.name
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    inside = stat.S_ISDIR(status.st_mode)
                    later = status.st_ctime_ns >= began_ns
                    if not later and not inside:
                        continue  # most entries
                    if entry.name in CACHES or path in leave_out or entry.name in DEPENDENCIES:
                        continue
                    if path in hidden:
                        continue
                    if later:
                        changed.append(shown_name(path) + "/" * inside)
                    if inside:
                        todo.append(path)
    return tuple(sorted(changed))
