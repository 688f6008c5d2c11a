"""Writes untrusted entries into a folder: beneath its descriptor, and never through a link.

Rule 1: Parent folders are opened one name at a time, without following links. A link or file in place of a folder is
    replaced, as in a later layer of an image.
Rule 2: No entry is setuid or setgid, no file is sticky, and the owner may read and change everything.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from stackmem.core.errors import StackmemError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVILEGES = stat.S_ISUID | stat.S_ISGID
_MAX_DEPTH = 200  # one descriptor per level stays open
_MAX_PATH = 3_000  # the kernel's limit is 4,096 bytes, including the path of the folder
_MAX_SECONDS = 1 << 34  # later times do not fit into all file systems

Parts = tuple[bytes, ...]
_T = TypeVar("_T")


class ArchiveError(StackmemError):
    """An archive is damaged, too large, or contains an entry that cannot be written; the message is the reason."""


class UnpackedTree:
    """A folder that receives entries. A context manager that closes it.

    ``replaces`` says whether a later entry replaces an earlier one. Otherwise a repeated entry is refused.
    ``folder_mode`` is the mode of folders without an entry.
    """

    def __init__(self, folder: Path, *, replaces: bool = True, folder_mode: int = 0o755) -> None:
        self._replaces, self._folder_mode = replaces, folder_mode
        self._names: list[bytes] = []
        self._fds = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._fresh: set[Parts] = set()
        self._times: dict[Parts, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Set the times of the folders, which changed while writing into them."""
        try:
            for parts, mtime_ns in self._times.items():
                if (fd := self._existing(parts)) is not None:
                    os.utime(fd, ns=(mtime_ns, mtime_ns))
        finally:
            self._leave(0)
            os.close(self._fds.pop())

    def begin_layer(self) -> None:
        """Start a layer: ``remove`` and ``empty`` do not affect what this layer has written."""
        self._fresh.clear()

    def add_folder(self, parts: Parts, mode: int, mtime_ns: int) -> None:
        if parts:
            os.fchmod(self._folder(parts), mode & 0o1777 | 0o700)
            self._times[parts] = _time(mtime_ns)

    def add_file(self, parts: Parts, mode: int, mtime_ns: int, write: Callable[[int], object]) -> None:
        """Create a file; ``write`` writes the content to a descriptor."""
        fd = self._add(parts, lambda parent, name: os.open(name, _NEW_FILE, 0o600, dir_fd=parent))
        try:
            write(fd)
            os.fchmod(fd, mode & 0o777 | 0o600)
            os.utime(fd, ns=(_time(mtime_ns), _time(mtime_ns)))
        finally:
            os.close(fd)

    def add_link(self, parts: Parts, target: bytes) -> None:
        self._add(parts, lambda parent, name: os.symlink(target, name, dir_fd=parent))

    def add_hard_link(self, parts: Parts, source: Parts) -> None:
        """Add a second name for a file of this tree. A symlink is linked itself, and no parent may be a link."""
        label = os.fsdecode(b"/".join(source))
        if parts == source:
            return
        folder = self._existing(source[:-1]) if source else None
        if folder is None:
            raise ArchiveError(f"a hard link to {label!a}, which is not in the archive")
        folder = os.dup(folder)
        try:
            mode = os.stat(source[-1], dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
                raise ArchiveError(f"a hard link to {label!a}, which is not a file")
            self._add(
                parts,
                lambda parent, name: os.link(
                    source[-1], name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False
                ),
            )
        except FileNotFoundError as error:
            raise ArchiveError(f"a hard link to {label!a}, which is not in the archive") from error
        finally:
            os.close(folder)

    def remove(self, parts: Parts) -> None:
        """Remove an entry of earlier layers. It may be missing."""
        if (folder := self._existing(parts[:-1])) is not None:
            self._drop(folder, parts)

    def empty(self, parts: Parts) -> None:
        """Remove the content that earlier layers left in a folder."""
        if (folder := self._existing(parts)) is not None:
            for name in os.listdir(folder):
                self._drop(folder, (*parts, os.fsencode(name)))

    def _drop(self, folder: int, parts: Parts) -> None:
        if parts not in self._fresh:
            with suppress(FileNotFoundError):
                _remove(folder, parts[-1])
            return
        try:
            fd = os.open(parts[-1], _FOLDER, dir_fd=folder)
        except OSError:  # a file or link of this layer
            return
        try:
            for name in os.listdir(fd):
                self._drop(fd, (*parts, os.fsencode(name)))
        finally:
            os.close(fd)

    def _add(self, parts: Parts, make: Callable[[int, bytes], _T]) -> _T:
        if not parts:
            raise ArchiveError("an entry without a name that is not a folder")
        parent, name = self._folder(parts[:-1]), parts[-1]
        self._fresh.add(parts)
        try:
            return make(parent, name)
        except FileExistsError:
            self._make_way(parent, parts)
            return make(parent, name)

    def _make_way(self, parent: int, parts: Parts) -> None:
        if not self._replaces:
            raise ArchiveError(f"{os.fsdecode(b'/'.join(parts))!a} exists already")
        _remove(parent, parts[-1])

    def _existing(self, parts: Parts) -> int | None:
        """Return the descriptor of a folder, or None if it is missing or behind a link. Valid until the next call."""
        self._leave(self._shared(parts))
        for name in parts[len(self._names) :]:
            try:
                self._enter(name)
            except OSError:
                return None
        return self._fds[-1]

    def _folder(self, parts: Parts) -> int:
        """Return the descriptor of a folder, creating it and its parents if missing. Valid until the next call."""
        if len(parts) > _MAX_DEPTH or sum(map(len, parts)) > _MAX_PATH:
            raise ArchiveError(f"an entry more than {_MAX_DEPTH} folders or {_MAX_PATH:,} bytes deep")
        self._leave(self._shared(parts))
        for at in range(len(self._names), len(parts)):
            name = parts[at]
            self._fresh.add(parts[: at + 1])
            try:
                self._enter(name)
                continue
            except FileNotFoundError:
                pass
            except OSError:
                self._make_way(self._fds[-1], parts[: at + 1])
            os.mkdir(name, self._folder_mode, dir_fd=self._fds[-1])
            self._enter(name)
        return self._fds[-1]

    def _enter(self, name: bytes) -> None:
        self._fds.append(os.open(name, _FOLDER, dir_fd=self._fds[-1]))
        self._names.append(name)

    def _shared(self, parts: Parts) -> int:
        """Return how many of the open folders are parents of a path."""
        for at, (own, other) in enumerate(zip(self._names, parts, strict=False)):
            if own != other:
                return at
        return min(len(self._names), len(parts))

    def _leave(self, depth: int) -> None:
        while len(self._names) > depth:
            self._names.pop()
            os.close(self._fds.pop())


def drop_privileges(folder: Path) -> None:
    """Remove setuid and setgid from everything below a folder that no process writes to any more."""
    for _, folders, files, fd in os.fwalk(folder):
        for name in (*folders, *files):
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if mode & _PRIVILEGES and not stat.S_ISLNK(mode):
                os.chmod(name, stat.S_IMODE(mode) & ~_PRIVILEGES, dir_fd=fd)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _remove(folder: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(name, dir_fd=folder)


def _time(mtime_ns: int) -> int:
    return min(max(mtime_ns, 0), _MAX_SECONDS * 1_000_000_000)
