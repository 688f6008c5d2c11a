"""Packs of earlier runs by what they were made from: searching a history for secrets takes longer than copying it.

A run gets a copy of its own, since commands may write into the pack that they see. Only the last few packs are kept.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from stackmem.errors import WorkspaceError
from stackmem.workspace.tree import remove_tree

_KEPT = 4
_WITHHELD = "withheld.json"


class PackCache:
    """A folder of packs; what cannot be read or written there is as if it were not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, key: str, into: Path) -> set[str] | None:
        """Copy the pack into a folder; the names of the blobs that it withholds, or None where there is none."""
        try:
            with self._locked():
                place = self._folder / key
                withheld = msgspec.json.decode((place / _WITHHELD).read_bytes(), type=set[str])
                for pack in place.glob("pack-*"):
                    shutil.copyfile(pack, into / pack.name)
                os.utime(place)
        except (OSError, msgspec.MsgspecError):
            for part in into.glob("pack-*"):
                part.unlink()
            return None
        return withheld

    def keep(self, key: str, made: Path, withheld: set[str]) -> None:
        """Keep a copy of the pack in a folder, and of the oldest packs none."""
        try:
            with self._locked():
                place = self._folder / f"{key}.new"
                for old in (place, self._folder / key):
                    remove_tree(old)
                place.mkdir()
                for pack in made.glob("pack-*"):
                    shutil.copyfile(pack, place / pack.name)
                (place / _WITHHELD).write_bytes(msgspec.json.encode(withheld))
                place.rename(self._folder / key)
                places = (path for path in self._folder.iterdir() if path.is_dir())
                for old in sorted(places, key=lambda path: path.stat().st_mtime_ns)[:-_KEPT]:
                    remove_tree(old)
        except (OSError, WorkspaceError):
            return

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
