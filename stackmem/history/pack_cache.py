"""Caches packs of earlier runs by their inputs, because searching a history for secrets takes long.

Rule 1: Entries are never modified. A run whose commands can write to its repository gets a copy. A run with an overlay
    over its repository gets hard links, which survive the removal of the entry.
Rule 2: Only our own packs are here, with all objects hashed again; nothing is borrowed from other repositories.
Rule 3: Only the most recent entries are kept.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time

import msgspec
from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.files import read_regular
from stackmem.workspace.tree import disk_bytes, remove_tree

_MAX_ENTRIES = 8
_MAX_PACKS = 16  # per entry, because git searches each pack
_METADATA, _INDEX = "about.json", "index"


class PackedFrom(Struct, frozen=True):
    """The inputs of an entry."""

    origin: str  # digest of the repository's path and the excluded secrets
    withheld: frozenset[str]  # the excluded blobs
    index: tuple[int, int] = (0, 0)  # size and time of the repository's index when the entry's index was created


class PackCache:
    """A folder of packs. Unreadable or unwritable entries are treated as missing."""

    def __init__(self, folder: Path, *, links: bool = False) -> None:
        self.folder = folder  # path of the cache
        self.links = links  # whether to hard-link instead of copy, for places that no command can write

    def take(self, key: str, into: Path) -> frozenset[str] | None:
        """Put the packs of an entry into a folder. Returns the excluded blobs, or None if there is no such entry."""
        try:
            with self._locked():
                path = self.folder / key
                withheld = _read_metadata(path).withheld
                self._put(path, into)
                os.utime(path)
        except (OSError, msgspec.MsgspecError):
            self._drop(into)
            return None
        return withheld

    def take_like(self, origin: str, into: Path) -> bool:
        """Put the packs of the latest entry of an origin into a folder. Returns whether there was one."""
        with suppress(OSError), self._locked():
            for entry in sorted(self._entries(), key=lambda path: -path.stat().st_mtime_ns):
                with suppress(OSError, msgspec.MsgspecError):
                    if _read_metadata(entry).origin == origin and len(list(entry.glob("*.pack"))) < _MAX_PACKS:
                        self._put(entry, into)
                        return True
        self._drop(into)
        return False

    def keep(self, key: str, packs: Path, metadata: PackedFrom) -> None:
        """Store the packs of a folder, and remove the oldest entries."""
        try:
            with self._locked():
                entry = self.folder / f"{key}.new"
                for old in (entry, self.folder / key):
                    remove_tree(old)
                entry.mkdir()
                self._put(packs, entry)
                (entry / _METADATA).write_bytes(msgspec.json.encode(metadata))
                entry.rename(self.folder / key)
                for old in sorted(self._entries(), key=lambda path: path.stat().st_mtime_ns)[:-_MAX_ENTRIES]:
                    remove_tree(old)
        except (OSError, WorkspaceError):
            return

    def take_index(self, key: str, like: tuple[int, int], into: Path) -> bool:
        """Put the index of an entry at a path, if it was created from an index with this size and time."""
        with suppress(OSError, msgspec.MsgspecError), self._locked():
            path = self.folder / key
            if _read_metadata(path).index == like != (0, 0):
                self._share(path / _INDEX, into)
                return True
        return False

    def keep_index(self, key: str, like: tuple[int, int], path: Path) -> None:
        """Store an index with the packs of its entry, replacing the previous one."""
        with suppress(OSError, msgspec.MsgspecError), self._locked():
            entry = self.folder / key
            metadata = msgspec.structs.replace(_read_metadata(entry), index=like)
            (entry / _INDEX).unlink(missing_ok=True)  # a run with a hard link to it keeps it
            self._share(path, entry / _INDEX)
            (entry / "about.new").write_bytes(msgspec.json.encode(metadata))
            (entry / "about.new").rename(entry / _METADATA)

    def prune(self, older_seconds: float, *, dry_run: bool) -> int:
        """Remove entries that are unused for ``older_seconds`` and not linked by any run. Returns the freed bytes."""
        freed = 0
        with suppress(OSError, WorkspaceError), self._locked():
            for entry in self._entries():
                in_use = any(path.stat().st_nlink > 1 for path in entry.glob("pack-*"))
                if not in_use and entry.stat().st_mtime < time() - older_seconds:
                    freed += disk_bytes([[entry]])[0] or 0
                    if not dry_run:
                        remove_tree(entry)
        return freed

    def _entries(self) -> Iterator[Path]:
        return (path for path in self.folder.iterdir() if path.is_dir() and path.suffix != ".new")

    def _put(self, source: Path, into: Path) -> None:
        for pack in source.glob("pack-*"):
            self._share(pack, into / pack.name)

    def _share(self, source: Path, target: Path) -> None:
        if self.links:
            try:
                target.hardlink_to(source)
            except FileExistsError:
                raise
            except OSError:  # another file system, or one without hard links
                pass
            else:
                return
        shutil.copyfile(source, target)

    def _drop(self, into: Path) -> None:
        for part in into.glob("pack-*"):
            part.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _read_metadata(path: Path) -> PackedFrom:
    return msgspec.json.decode(read_regular(path / _METADATA), type=PackedFrom)
