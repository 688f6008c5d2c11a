"""Packs and unpacks zip archives, the common format for runs, benchmarks and studies.

Entries are written as plain files beneath a folder, or read in memory, whatever type they claim to have.
"""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from msgspec import Struct

from stackmem.core.errors import StackmemError

from .files import open_regular
from .tree import ArchiveError, UnpackedTree, write_all

_EPOCH = (1980, 1, 1, 0, 0, 0)  # fixed, so that the same files give the same bytes
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PART = 1 << 20


class ZipPacker:
    """A new archive. Raises ``OSError`` if it exists or cannot be written."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, allowZip64=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def open(self, name: str) -> IO[bytes]:
        """Open a new file in the archive for writing."""
        return self._zip.open(_info(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True)

    def add(self, name: str, content: bytes, *, compressed: bool = True) -> None:
        self._zip.writestr(_info(name, _METHODS[compressed]), content)


def _info(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = method
    info.external_attr = 0o644 << 16
    return info


class ZippedFile(Struct, frozen=True):
    """Claims of an archive about a file in it."""

    name: str
    size: int  # unpacked size; never more than that is read
    common: bool  # whether it is stored or deflated


class Zipped:
    """An archive to unpack."""

    def __init__(self, opened: zipfile.ZipFile) -> None:
        self._zip = opened
        self._infos = [info for info in opened.infolist() if not info.filename.endswith("/")]
        self.files = [ZippedFile(info.filename, info.file_size, info.compress_type in _METHODS) for info in self._infos]

    def unpack(self, into: Path) -> None:
        """Write every file below a folder, readable only for its owner. Existing files are not replaced.

        Raise ArchiveError if a name leads out of the folder, or exists already.
        """
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        with UnpackedTree(into, replaces=False, folder_mode=0o700) as tree:
            for info in self._infos:
                path = PurePosixPath(info.filename)
                if path.is_absolute() or ".." in path.parts or "\0" in info.filename:
                    raise ArchiveError(f"the name {info.filename[:80]!a}")
                tree.add_file(tuple(map(os.fsencode, path.parts)), 0o600, time.time_ns(), partial(self._write, info))

    def read(self, names: tuple[str, ...], max_bytes: int) -> list[bytes]:
        """Return the named files, each at most ``max_bytes``. Raises ``ArchiveError`` if one is missing or larger."""
        infos = {info.filename: info for info in self._infos}
        contents = []
        for name in names:
            if (info := infos.get(name)) is None:
                raise ArchiveError(f"it has no {name}")
            if info.compress_type not in _METHODS or stat.S_ISLNK(info.external_attr >> 16):
                raise ArchiveError(f"{name} is not a plain file")
            with self._zip.open(info) as source:
                contents.append(source.read(max_bytes + 1))
            if len(contents[-1]) > max_bytes:
                raise ArchiveError(f"{name} is larger than {max_bytes:,} bytes")
        return contents

    def _write(self, info: zipfile.ZipInfo, fd: int) -> None:
        with self._zip.open(info) as source:
            while part := source.read(_PART):
                write_all(fd, part)


@contextmanager
def opened_zip(archive: Path | bytes) -> Iterator[Zipped]:
    """Open an archive by its path or content.

    Raise ArchiveError if the archive is damaged, and OSError if the archive cannot be read.
    """
    try:
        with (
            io.BytesIO(archive) if isinstance(archive, bytes) else open_regular(archive) as file,
            zipfile.ZipFile(file) as opened,
        ):
            yield Zipped(opened)
    except (StackmemError, OSError):
        raise
    except Exception as error:  # zipfile and zlib fail in a dozen ways on damaged data
        raise ArchiveError(f"it is damaged: {error}") from error
