"""Looking through a workspace for what changed since the last look, however hostile the workspace is.

Nothing outside is opened: each path is resolved beneath the workspace, no link is followed, no FIFO waited for.
A file whose size, times, permissions and inode are as they were is not read again.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.errors import WorkspaceError
from stackmem.workspace.beneath import Opener, opener_for
from stackmem.workspace.clip import meant_name, shown_name

from .ignored import IgnoreRules
from .objects import EXECUTABLE, FILE, LINK, Node, ObjectStore

CACHES = frozenset(
    {b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".hypothesis", b".ipynb_checkpoints"}
)
# Folders that hold what was installed, and the files by which an installer's work is told from a folder of that name.
_MARKS = {
    b".venv": (b"pyvenv.cfg",),
    b"venv": (b"pyvenv.cfg",),
    b"node_modules": (b".package-lock.json", b".yarn-integrity", b".yarn-state.yml", b".modules.yaml"),
}
_CLOCK_TICK_NS = 20_000_000  # file times advance in steps of up to 10 ms; within one, a change cannot be seen by time
_READ_BYTES = 1024 * 1024  # at once
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV}  # another kind of thing than a moment before

Key = tuple[int, int, int, int, int]


class Seen(Struct, frozen=True):
    """What a path held at the last look.

    Attributes:
        node: Its content.
        key: Size, times, permissions and inode of then; empty where it must be read again.

    """

    node: Node
    key: Key | tuple[()] = ()


class LeftOut(Struct, frozen=True):
    """A path that could not be kept.

    Attributes:
        path: As ``shown_name`` spells it.
        reason: In words, for a report.
        bytes: Its size; 0 where it is not known, or a folder.

    """

    path: str
    reason: str
    bytes: int = 0


class _Folder(Struct, frozen=True):
    """The entries of one folder that may be kept."""

    folders: list[bytes]
    files: list[tuple[bytes, os.stat_result]]


class Census:
    def __init__(
        self, git_dir: Path, work_tree: Path, store: ObjectStore, leave_out: tuple[str, ...], largest_bytes: int
    ) -> None:
        self._git_dir = git_dir
        self._work_tree = work_tree
        self._store = store
        self._leave_out = {path_bytes(path) for path in leave_out}
        self._largest_bytes = largest_bytes

    def take(self, before: dict[bytes, Seen], *, first: bool) -> tuple[dict[bytes, Seen], tuple[LeftOut, ...]]:
        """What is to be kept now, stored, and what could not be kept.

        ``before`` is the last answer; at the ``first`` look no ignore rule counts.
        """
        try:
            root = os.open(self._work_tree, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            place = shown_name(os.fspath(self._work_tree))
            raise WorkspaceError(
                f"the workspace {place} cannot be opened ({error.strerror}); start the run again"
            ) from error
        rules = None if first else IgnoreRules(self._git_dir, self._work_tree)
        look = _Look(root, before, self._leave_out, rules)
        settled_before = time.time_ns() - _CLOCK_TICK_NS
        seen: dict[bytes, Seen] = {}
        try:
            for path, status in look.files():
                known = before.get(path)
                key = _key(status)
                if known is not None and known.key == key:
                    seen[path] = known
                    continue
                try:
                    node = self._kept(look, path, status)
                except OSError as error:
                    if error.errno not in _GONE:
                        look.leave_out(path, _why(error), status.st_size)
                    continue
                if node is not None:
                    seen[path] = Seen(node, key if status.st_ctime_ns < settled_before else ())
        finally:
            os.close(root)
            if rules is not None:
                rules.close()
        for path in look.kept_as_before(seen):
            seen[path] = Seen(before[path].node)
        return seen, tuple(look.left_out)

    def _kept(self, look: _Look, path: bytes, status: os.stat_result) -> Node | None:
        """Store what the path holds now; None where it is too large, and named so."""
        if stat.S_ISLNK(status.st_mode):
            return Node(LINK, self._store.add("blob", look.target(path)))
        if status.st_size > self._largest_bytes:
            look.leave_out(path, f"larger than {self._largest_bytes} bytes", status.st_size)
            return None
        content = look.content(path, self._largest_bytes + 1)
        if len(content) > self._largest_bytes:  # it grows
            look.leave_out(path, f"larger than {self._largest_bytes} bytes", len(content))
            return None
        return Node(EXECUTABLE if status.st_mode & 0o100 else FILE, self._store.add("blob", content))


class _Look:
    """One walk through the workspace, folder by folder, level by level, so that git is asked in few questions."""

    def __init__(self, root: int, before: dict[bytes, Seen], leave_out: set[bytes], rules: IgnoreRules | None) -> None:
        self.left_out: list[LeftOut] = []
        self._root = root
        self._open: Opener = opener_for(root)
        self._before = before
        self._known_folders = _folders_of(before)
        self._leave_out_folders = leave_out
        self._first = rules is None
        self._rules = rules
        self._kept: list[bytes] = []  # what is left as it was: paths, and folders that end in "/"

    def files(self) -> Iterator[tuple[bytes, os.stat_result]]:
        level = [b""]
        while level:
            found = [self._folder(path) for path in level]
            ignored = self._ignored(found)
            level = []
            for folder in found:
                level += [path for path in folder.folders if path not in ignored]
                yield from (file for file in folder.files if file[0] not in ignored)

    def leave_out(self, path: bytes, reason: str, size: int = 0) -> None:
        self.left_out.append(LeftOut(shown_name(path), reason, size))
        self._kept.append(path)

    def kept_as_before(self, seen: dict[bytes, Seen]) -> list[bytes]:
        """The known files that are at or below something that was left out."""
        exact = {path for path in self._kept if path in self._before}
        folders = tuple(path + b"/" for path in self._kept if path in self._known_folders)
        below = (path for path in self._before if folders and path.startswith(folders))
        return [path for path in exact.union(below) if path not in seen]

    def content(self, path: bytes, most: int) -> bytes:
        """At most so many bytes of a regular file.

        Raises:
            OSError: It cannot be read, or is another kind of thing by now (ENOENT).

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
            if error.errno not in _GONE:
                self.leave_out(path, _why(error))
            return folder
        try:
            self._sort_entries(fd, path, folder)
        except OSError as error:
            self.leave_out(path, _why(error))
            return _Folder([], [])
        finally:
            os.close(fd)
        return folder

    def _sort_entries(self, fd: int, path: bytes, folder: _Folder) -> None:
        prefix = path + b"/" if path else b""
        with os.scandir(fd) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if name.lower() == b".git":
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                child = prefix + name
                if stat.S_ISDIR(status.st_mode):
                    if child in self._known_folders or not self._passed_over(fd, child, name):
                        folder.folders.append(child)
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    if stat.S_ISLNK(status.st_mode) and name.lower() == b".gitmodules":
                        self.leave_out(child, "git refuses a link of this name")
                        continue
                    folder.files.append((child, status))
                elif name == b".gitignore":
                    self._rules = None  # git would wait for a FIFO for ever

    def _passed_over(self, parent: int, path: bytes, name: bytes) -> bool:
        """Whether a folder that holds nothing known is one of those that are not looked into.

        What the workspace starts with may be anybody's folder of that name (fixtures, the package ``Lib/venv``), so
        there an installer must have left its mark.
        """
        if name in CACHES or path in self._leave_out_folders:
            return True
        if name not in _MARKS or (name != b"venv" and not self._first):
            return name in _MARKS
        return any(_is_there(parent, name + b"/" + mark) for mark in _MARKS[name])

    def _ignored(self, found: list[_Folder]) -> set[bytes]:
        if self._rules is None:
            return set()
        new = [path for folder in found for path in folder.folders if path not in self._known_folders]
        new += [path for folder in found for path, _ in folder.files if path not in self._before]
        return self._rules.ignored(new)


def path_bytes(shown: str) -> bytes:
    """The path that ``shown_name`` shows so."""
    return (meant_name(shown) if "\\" in shown else None) or os.fsencode(shown)


def _key(status: os.stat_result) -> Key:
    # ctime too: a command can set a file's mtime back, but not its ctime
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _folders_of(files: dict[bytes, Seen]) -> set[bytes]:
    found: set[bytes] = set()
    for path in files:
        above = path.rpartition(b"/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition(b"/")[0]
    return found


def _is_there(parent: int, path: bytes) -> bool:
    try:
        os.stat(path, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _why(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"
