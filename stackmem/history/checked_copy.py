"""A copy of the workspace for a check, in which files are restored to the state the run found.

Rule 1: Only the copy is written, and never through a link.
Rule 2: Compiled files in ``__pycache__`` are removed, because Python would use them instead of restored sources. Caches
    of test runners, linters and type checkers are removed too, because they can affect what is checked.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.files import read_start
from stackmem.workspace.clip import shown_name

from .history import History
from .layer import Layer, Overlay, OwnFolder
from .objects import EXECUTABLE, FILE, LINK, Node
from .restore import content_of, put_file, remove_file
from .steering import KINDS, InitialFile, SteeringKind, runs_something, same_settings, steers

_PASSED_OVER = {b".git", b"__pycache__", b".mypy_cache", b".ruff_cache", b".pytest_cache"}
_REMOVED = {b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".eslintcache", b".stylelintcache"}
_INSTALLED = {b".venv", b"venv", b"node_modules"}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 64 << 20


class FoundFiles:
    """The initial files of a run's workspace, for checks of its copies."""

    def __init__(self, history: History, git_dir: Path, tree: str, most: SteeringKind = "settings") -> None:
        """Read the run's initial tree, or for an overlay the folder under it."""
        self.most = most  # the last of the kinds that are restored: ``start``, ``settings`` or ``tests``
        self._git_dir = git_dir
        self._began = history.files(tree)

    def for_copy(self, copy: Layer) -> CheckedCopy:
        return CheckedCopy(copy, self._began, self._git_dir, self.most)


class CheckedCopy:
    """The copy, with the run's initial files for comparison."""

    def __init__(self, copy: Layer, began: Mapping[bytes, Node], git_dir: Path, most: SteeringKind) -> None:
        self._copy = copy
        self._began = began
        self._git_dir = git_dir
        self._kinds = set(KINDS[: KINDS.index(most) + 1])
        if most == "settings" and not self._had_tests():
            self._kinds.discard("settings")
        self.candidates = sorted({*self._differing()})  # paths at which the copy may differ from the initial files

    def put_back_steering(self) -> tuple[str, ...]:
        """Restore the files that control any check. Returns the names of those that differed.

        Raise WorkspaceError if the copy cannot be written, or one of its files cannot be read.
        """
        for path in self.candidates:
            if path.rpartition(b"/")[2] in _REMOVED or path.endswith(b".tsbuildinfo"):
                self._replace(path, None)
        return self.put_back(self._steers)

    def _steers(self, path: bytes) -> bool:
        kind = steers(path)
        return kind in self._kinds and (kind != "tests" or self.existed(path))

    def put_back_settings(self) -> tuple[str, ...]:
        """Restore the settings of test runners, although no initial file looks like a test.

        Raise WorkspaceError as ``put_back_steering`` does.
        """
        return self.put_back(lambda path: steers(path) == "settings")

    def put_back(self, predicate: Callable[[bytes], bool]) -> tuple[str, ...]:
        """Restore the chosen files. Returns the names of those that differed.

        Raise WorkspaceError as ``put_back_steering`` does.
        """
        other = []
        for path in filter(predicate, self.candidates):
            before, now = self.initial_file(path), current(self._copy.view.fd, path)
            if before != now and not same_settings(path, before, now):
                self._replace(path, before)
                other.append(shown_name(path))
        return tuple(other)

    def runs_init(self, path: bytes) -> bool:
        """Return whether an ``__init__`` in the copy executes any code."""
        now = current(self._copy.view.fd, path)
        return now is not None and (now[0] == LINK or not path.endswith(b".py") or runs_something(now[1]))

    def remove_added(self, paths: Iterable[bytes]) -> tuple[str, ...]:
        """Remove files and folders that did not exist initially, and return their names.

        Raise WorkspaceError as ``put_back_steering`` does.
        """
        added = [path for path in sorted({*paths}) if self.exists(path) and not self.existed(path)]
        for path in added:
            self._replace(path, None)
        return tuple(map(shown_name, added))

    def paths_found(self) -> Iterator[bytes]:
        """Return the initial files, without installed packages."""
        if isinstance(self._copy, Overlay):
            there = _walk(self._copy.folder, _PASSED_OVER | _INSTALLED)
            return (
                path for path, entry in there if not entry.is_dir(follow_symlinks=False) and not self._is_hidden(path)
            )
        return iter(self._began)

    def existed(self, path: bytes) -> bool:
        """Return whether a file or folder existed initially."""
        if not isinstance(self._copy, Overlay):
            return path in self._began or path in self._folders
        return not self._is_hidden(path) and os.path.lexists(os.path.join(os.fsencode(self._copy.folder), path))  # noqa: PTH118

    def exists(self, path: bytes) -> bool:
        """Return whether the copy has anything at a path."""
        return _kind_at(self._copy.view.fd, path) != 0

    def is_link(self, path: bytes) -> bool:
        return _kind_at(self._copy.view.fd, path) == stat.S_IFLNK

    def entries(self, folder: bytes) -> frozenset[bytes]:
        """Return the names in a folder of the copy; empty if it is not a folder."""
        return frozenset(name for name, _ in _entries(b"/proc/self/fd/%d/%s" % (self._copy.view.fd, folder)))

    def initial_file(self, path: bytes) -> InitialFile | None:
        """Return the initial file at a path."""
        if isinstance(self._copy, Overlay):
            if self._is_hidden(path):
                return None
            folder = os.open(self._copy.folder, _FOLDER)
            try:
                return current(folder, path)
            finally:
                os.close(folder)
        node = self._began.get(path)
        return None if node is None else (node.mode, content_of(self._git_dir, node.id))

    @cached_property
    def _folders(self) -> frozenset[bytes]:
        return frozenset(path[:at] for path in self._began for at, letter in enumerate(path) if letter == 0x2F)

    def _is_hidden(self, path: bytes) -> bool:
        hidden = self._copy.hidden if isinstance(self._copy, Overlay) else frozenset()
        return any(path == each or path.startswith(each + b"/") for each in hidden)

    def _differing(self) -> Iterator[bytes]:
        copy = self._copy
        if isinstance(copy, Overlay):
            for path, entry in _walk(copy.upper, _PASSED_OVER):
                yield path
                if not entry.is_dir(follow_symlinks=False) or _is_opaque(entry.path):
                    yield from (b"%s/%s" % (path, name) for name, _ in _walk(_inner(copy.folder, path), _PASSED_OVER))
            return
        yield from self._began
        for path, entry in _walk(copy.view.root, _PASSED_OVER | _INSTALLED):
            if self._is_lent(path, entry.path):
                continue
            yield path
            if entry.name == b"venv":  # venv is also a module of the standard library
                yield path + b"/__init__.py"

    def _is_lent(self, path: bytes, location: bytes) -> bool:
        """Return whether this is still the link to installed packages that stackmem created before the run."""
        lent = self._copy.lent.get(path) if isinstance(self._copy, OwnFolder) else None
        return lent is not None and _target(location) == os.fsencode(lent)

    def _had_tests(self) -> bool:
        return any(steers(path) == "tests" for path in self.paths_found())

    def _replace(self, path: bytes, file: InitialFile | None) -> None:
        """Restore the initial file at a path, whatever is there now."""
        root = self._copy.view.fd
        try:
            try:
                remove_file(root, path)
            except IsADirectoryError:
                shutil.rmtree(b"/proc/self/fd/%d/%s" % (root, path))
            if file is not None:
                self._clear_way(path)
                put_file(root, path, *file)
            else:
                self._remove_emptied(path)
        except OSError as error:
            raise WorkspaceError(
                f"{shown_name(path)} controls the check and cannot be restored "
                f"({error.strerror}); use --check-files left to check without that"
            ) from error

    def _remove_emptied(self, path: bytes) -> None:
        """Remove parent folders that became empty, unless they existed initially, because Python can import empty
        folders.
        """
        parent = path.rpartition(b"/")[0]
        while parent and not self.existed(parent):
            try:
                Path(f"/proc/self/fd/{self._copy.view.fd}", os.fsdecode(parent)).rmdir()
            except OSError:
                return
            parent = parent.rpartition(b"/")[0]

    def _clear_way(self, path: bytes) -> None:
        """Remove links and files in place of a parent folder."""
        for at, letter in enumerate(path):
            if letter == 0x2F and _kind_at(self._copy.view.fd, path[:at]) not in (0, stat.S_IFDIR):
                remove_file(self._copy.view.fd, path[:at])


def _kind_at(root: int, path: bytes) -> int:
    """Return the file type at a path, as in ``stat.S_IFMT``; 0 if it is missing or behind a link."""
    try:
        folder, name = open_above(root, path)
    except OSError:
        return 0
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return 0
    finally:
        os.close(folder)


def _target(path: bytes) -> bytes | None:
    """Return the target of a link, or None for anything else."""
    try:
        return os.readlink(path)  # noqa: PTH115 - of bytes
    except OSError:
        return None


def _entries(folder: bytes) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from ((entry.name, entry) for entry in entries)


def _walk(folder: Path, skip: set[bytes]) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    """Yield everything below a folder by its relative path, without following links; empty if it is not a folder."""
    waiting = [b""]
    while waiting:
        parent = waiting.pop()
        for name, entry in _entries(os.path.join(os.fsencode(folder), parent)):  # noqa: PTH118 - of bytes
            path = os.path.join(parent, name)  # noqa: PTH118 - of bytes
            yield path, entry
            if entry.is_dir(follow_symlinks=False) and name not in skip:
                waiting.append(path)


def _inner(folder: Path, path: bytes) -> Path:
    """Return a subfolder, or an empty folder if a link leads there."""
    inner = folder / os.fsdecode(path)
    return inner if inner.resolve() == folder.resolve() / os.fsdecode(path) else Path("/proc/self/fdinfo/none")


def _is_opaque(path: bytes) -> bool:
    """Return whether a folder of an overlay hides the folder below it."""
    for kind in ("trusted", "user"):
        with suppress(OSError):
            return os.getxattr(path, f"{kind}.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def open_above(root: int, path: bytes) -> tuple[int, bytes]:
    """Open the parent folder of a path without following links. Returns it with the file's name.

    Raise OSError if the folder does not exist.
    """
    *parents, name = path.split(b"/")
    folder = os.dup(root)
    try:
        for each in parents:
            folder, remaining = os.open(each, _FOLDER, dir_fd=folder), folder
            os.close(remaining)
    except BaseException:
        os.close(folder)
        raise
    return folder, name


def current(root: int, path: bytes) -> InitialFile | None:
    """Return the file at a path below an open folder, or None if there is none or a link leads there.

    Raise WorkspaceError if the file cannot be read, or is too large.
    """
    try:
        folder, name = open_above(root, path)
        try:
            return _content(folder, name)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise WorkspaceError(
            f"{shown_name(path)} controls the check and cannot be read ({error.strerror}); "
            "use --check-files left to check without that"
        ) from error


def _content(folder: int, name: bytes) -> InitialFile | None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return LINK, os.readlink(name, dir_fd=folder)
    if not stat.S_ISREG(status.st_mode):
        return None
    content = read_start(name, _MAX_BYTES + 1, follow=False, dir_fd=folder)
    if len(content) > _MAX_BYTES:
        raise OSError(errno.EFBIG, "it is too large for a file that controls a check")
    return EXECUTABLE if status.st_mode & 0o100 else FILE, content
