"""The only module that unpacks untrusted archives and folders: into a folder beneath its descriptor, with limits.

Devices, pipes and sockets are left out, names with ``..`` are refused, and the unpacked size is limited. See
``tree.py`` for writing entries, and ``tar.py`` for reading them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import BinaryIO, cast

from .tar import BROKEN, ArchiveBudget, TarEntry, TarReader, plain
from .tree import ArchiveError, Parts, UnpackedTree

_MAX_BYTES = 64 << 30
_MAX_ENTRIES = 2_000_000
_MAX_RATIO = 100
"""Ordinary archives have about a third of their unpacked size; an archive of zeros has a thousandth."""
_SMALL_BYTES = 1 << 30
_MAX_LINKS = 8
_BUFFER = 1 << 18
_WHITEOUT, _OPAQUE, _MARKS = b".wh.", b".wh..wh..opq", b".wh..wh."

Leaves = Callable[[Parts], bool]


def budget_for(file: BinaryIO) -> ArchiveBudget:
    """Return the unpacking limit for an archive of this size."""
    size = os.fstat(file.fileno()).st_size
    return ArchiveBudget(min(_MAX_BYTES, max(_SMALL_BYTES, _MAX_RATIO * size)), _MAX_ENTRIES)


@contextmanager
def opened(archive: Path) -> Iterator[io.BufferedReader[io.FileIO]]:
    """Open an archive that the user named.

    Raise ArchiveError if the archive is not a regular file, and OSError if the archive cannot be opened.
    """
    fd = os.open(archive, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with io.BufferedReader(io.FileIO(fd), _BUFFER) as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ArchiveError("it is not a regular file")
        yield file


def first_name(file: BinaryIO, budget: ArchiveBudget) -> str:
    """Return the name of a tar archive's first entry, or an empty string. The file is rewound afterwards."""
    with _readable():
        first = next(iter(TarReader(plain(file), budget)), None)
    file.seek(0)
    return os.fsdecode(first.name) if first else ""


def unpack_layer(
    file: BinaryIO, tree: UnpackedTree, budget: ArchiveBudget, *, whiteouts: bool = True, leaves: Leaves | None = None
) -> None:
    """Write the content of a tar archive over that of earlier layers, without following their links.

    ``whiteouts`` says whether entries named ``.wh.NAME`` delete files of earlier layers, as in a layer of an image.
    ``leaves`` selects entries to leave out, by name. Raise ArchiveError if the archive is damaged, too large, or
    contains an entry that cannot be written. Raise OSError if the disk is full, or the folder cannot be written.
    """
    with _readable():
        reader = TarReader(plain(file), budget)
        tree.begin_layer()
        for entry in reader:
            parts = _parts(entry.name)
            if leaves is not None and leaves(parts):
                continue
            if whiteouts and any(name.startswith(_WHITEOUT) for name in parts):
                _take_away(tree, parts)
                continue
            try:
                _write(reader, entry, parts, tree)
            except OSError as error:
                raise _unwritable(error, entry.name) from error


def _write(reader: TarReader, entry: TarEntry, parts: Parts, tree: UnpackedTree) -> None:
    match entry.kind:
        case "file":
            tree.add_file(parts, entry.mode, entry.mtime_ns, lambda fd: reader.write(entry, fd))
        case "folder":
            tree.add_folder(parts, entry.mode, entry.mtime_ns)
        case "link":
            if not entry.target or b"\0" in entry.target:
                raise ArchiveError(f"{_printable(entry.name)} is a link to nothing")
            tree.add_link(parts, entry.target)
        case "hard link":
            tree.add_hard_link(parts, _parts(entry.target))
        case "other":
            pass


def _take_away(tree: UnpackedTree, parts: Parts) -> None:
    """Apply a whiteout, unless it is an internal mark of old storage drivers."""
    *parents, mark = parts
    if any(name.startswith(_WHITEOUT) for name in parents):
        return
    if mark == _OPAQUE:
        tree.empty(tuple(parents))
    elif not mark.startswith(_MARKS):
        name = mark.removeprefix(_WHITEOUT)
        if name in (b"", b".", b".."):
            raise ArchiveError(f"{_printable(b'/'.join(parts))} removes no name")
        tree.remove((*parents, name))


def unpack_folder(source: Path, tree: UnpackedTree) -> None:
    """Write the content of a folder: files, folders and links, but not the targets of links.

    Raise OSError if a file cannot be read or written.
    """
    top = os.fsencode(source)
    for path, folders, files, fd in os.fwalk(top, onerror=_raise):
        at = _parts(path.removeprefix(top))
        status = os.fstat(fd)
        tree.add_folder(at, status.st_mode, status.st_mtime_ns)
        for name in (*folders, *files):
            _copy(fd, name, (*at, name), tree)


def _copy(folder: int, name: bytes, parts: Parts, tree: UnpackedTree) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        tree.add_link(parts, os.readlink(name, dir_fd=folder))
    elif stat.S_ISREG(status.st_mode):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(fd, "rb", buffering=0):
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode):
                tree.add_file(parts, status.st_mode, status.st_mtime_ns, lambda out: _pour(fd, out, status.st_size))


def _pour(source: int, target: int, size: int) -> None:
    at = 0
    while at < size and (sent := os.sendfile(target, source, at, size - at)):
        at += sent


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def decompressed(file: BinaryIO, scratch: Path, budget: ArchiveBudget) -> Iterator[BinaryIO]:
    """Return the file itself, or its decompressed content in a temporary file in ``scratch``."""
    with _readable(), ExitStack() as stack:
        source = plain(file)
        if source is not file:
            copy = stack.enter_context(tempfile.TemporaryFile(dir=scratch, buffering=_BUFFER))
            while part := source.read(1 << 20):
                budget.spend(len(part))
                copy.write(part)
            copy.seek(0)
            file = cast("BinaryIO", copy)
        yield file


def layer_digest(file: BinaryIO, budget: ArchiveBudget) -> str:
    """Return the ``sha256:...`` of a layer's decompressed content. Raises ``ArchiveError`` if it is damaged or too
    large.
    """
    digest = hashlib.sha256()
    with _readable():
        source = plain(file)
        while part := source.read(1 << 20):
            budget.spend(len(part))
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


class SavedFiles:
    """The files of a ``docker save`` archive by name. Nothing is written to disk.

    ``file`` is the archive, uncompressed.
    """

    def __init__(self, file: BinaryIO, budget: ArchiveBudget) -> None:
        self._file, self._budget = file, budget
        self._found: dict[str, TarEntry] = {}
        with _readable():
            for entry in TarReader(file, budget):
                self._found[os.fsdecode(entry.name)] = entry

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def read(self, name: str, most: int) -> bytes:
        """Read a file. Raises ``KeyError`` if it does not exist, ``ArchiveError`` if it is larger than ``most``."""
        section = self.section(name)
        content = section.read(most + 1)
        if len(content) > most:
            raise ArchiveError(f"{name!a} is larger than {most:,} bytes")
        return content

    def section(self, name: str) -> BinaryIO:
        """Open a file, following links in the archive. Raises ``KeyError`` if it does not exist."""
        at = name
        for _ in range(_MAX_LINKS):
            entry = self._found[at]
            if entry.kind == "file":
                if entry.segments not in ((), ((0, entry.size),)):
                    raise ArchiveError(f"{name!a} is a sparse file")
                section = _Section(self._file.fileno(), entry.offset, entry.size)
                return cast("BinaryIO", io.BufferedReader(section, _BUFFER))
            target = os.fsdecode(entry.target)
            at = normpath(join(dirname(at), target)) if entry.kind == "link" else target
        raise KeyError(name)


class _Section(io.RawIOBase):
    """Part of a file, read without moving the descriptor's position."""

    def __init__(self, fd: int, start: int, size: int) -> None:
        self._fd, self._start, self._size, self._at = fd, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = max(0, min(len(buffer), self._size - self._at))
        done = os.preadv(self._fd, [memoryview(buffer)[:size]], self._start + self._at) if size else 0
        self._at += done
        return done


@contextmanager
def _readable() -> Iterator[None]:
    """Convert errors about damaged compressed data to ``ArchiveError``."""
    try:
        yield
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a disk error
        raise ArchiveError(f"it is damaged: {error}") from error


def _parts(name: bytes) -> Parts:
    """Split a path into names. A leading ``/`` is dropped, as in tar."""
    parts = tuple(each for each in name.split(b"/") if each not in (b"", b"."))
    if b".." in parts or b"\0" in name:
        raise ArchiveError(f"the name {_printable(name)}")
    return parts


def _unwritable(error: OSError, name: bytes) -> Exception:
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EPERM):
        return ArchiveError(f"the entry {_printable(name)}: {error.strerror}")
    return error


def _printable(name: bytes) -> str:
    return ascii(os.fsdecode(name[:80]))
