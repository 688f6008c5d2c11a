"""Reading the git objects of a run's history, without git: also of histories that came from elsewhere.

Objects are loose (zlib over ``KIND LENGTH NUL content``, named by SHA-1), in the history's own folder or in those that
its ``info/alternates`` names, as a fork's does; in the repository that a run works on they may be packed. Everything
read is checked against its name.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from stackmem.errors import TraceError

from .packs import Packs

FOLDER, LINK, EXECUTABLE = "40000", "120000", "100755"
_ID = re.compile(r"[0-9a-f]{40}")
_LARGEST_BYTES = 512 * 1024 * 1024
_FOLDERS_DEEP = 300
_PLACES = 100


class TreeEntry(Struct, frozen=True):
    """One file of a tree.

    Attributes:
        mode: ``100644``, ``100755`` (executable) or ``120000`` (a link, whose content is its target).
        id: Of its content.
    """

    mode: str
    id: str


class Objects:
    """The objects of one history."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir
        self._packs: list[Packs] | None = None

    def places(self) -> list[Path]:
        """The folders that hold them: the history's own first, then those it borrows from, and those these do."""
        found = [self._git_dir / "objects"]
        for place in found:
            lines: list[bytes] = []
            with suppress(OSError):
                lines = (place / "info" / "alternates").read_bytes().splitlines()
            found += [place / os.fsdecode(line) for line in lines if line and len(found) < _PLACES]
        return found

    def compressed(self, name: str) -> bytes:
        """The file of an object, as git keeps a loose one.

        Raises:
            TraceError: It is missing or damaged.
        """
        return zlib.compress(self._whole(name), 1)

    def read(self, name: str, kind: str) -> bytes:
        """The content of an object.

        Raises:
            TraceError: It is missing, damaged, or of another kind.
        """
        head, _, content = self._whole(name).partition(b"\0")
        if head != b"%s %d" % (kind.encode(), len(content)):
            raise self._damaged(name, f"it is no {kind}")
        return content

    def _whole(self, name: str) -> bytes:
        if not _ID.fullmatch(name):
            raise self._missing(name)
        try:
            whole = self._loose(name) or self._packed(name)
        except (OSError, ValueError, zlib.error) as error:
            raise self._damaged(name, str(error)) from error
        if whole is None:
            raise self._missing(name)
        if hashlib.sha1(whole, usedforsecurity=False).hexdigest() != name:
            raise self._damaged(name, "its name does not follow from its bytes")
        return whole

    def _loose(self, name: str) -> bytes | None:
        for place in self.places():
            with suppress(FileNotFoundError, NotADirectoryError):
                packed = (place / name[:2] / name[2:]).read_bytes()
                return zlib.decompressobj().decompress(packed, _LARGEST_BYTES)
        return None

    def _packed(self, name: str) -> bytes | None:
        if self._packs is None:
            self._packs = [Packs(place) for place in self.places()]
        for packs in self._packs:
            found = packs.read(name, _LARGEST_BYTES)
            if found is not None:
                return b"%s %d\0%s" % (found[0], len(found[1]), found[1])
        return None

    def _missing(self, name: str) -> TraceError:
        return TraceError(
            f"the history {self._git_dir} lacks {name[:60]!a}, so the files of that moment cannot be had; bring back "
            "the run's history.git (a fork's parent holds what they share, and the repository of a run what it has "
            "committed)"
        )

    def _damaged(self, name: str, why: str) -> TraceError:
        return TraceError(
            f"{name} in the history {self._git_dir} is damaged ({why}); bring back the run's history.git as it was"
        )

    def listing(self, tree: str) -> dict[bytes, TreeEntry]:
        """Every file below a tree by its path, sorted by path.

        Raises:
            TraceError: A tree is missing or damaged, or holds what no workspace can.
        """
        return dict(sorted(self._below(tree, b"", 0)))

    def entries(self, tree: str) -> list[tuple[bytes, TreeEntry]]:
        """What a tree itself holds, by name; folders have the mode ``40000``, and the id of their own tree."""
        return list(_entries(self.read(tree, "tree")))

    def _below(self, tree: str, path: bytes, depth: int) -> Iterator[tuple[bytes, TreeEntry]]:
        if depth > _FOLDERS_DEEP:
            raise self._damaged(tree, "its folders are deeper than any workspace's")
        for name, entry in _entries(self.read(tree, "tree")):
            if not name or name in (b".", b"..") or b"/" in name or name.lower() == b".git":
                raise self._damaged(tree, f"it holds the name {name[:60]!a}")
            if entry.mode == FOLDER:
                yield from self._below(entry.id, path + name + b"/", depth + 1)
            else:
                yield path + name, entry


def _entries(content: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    """``MODE NAME NUL`` and twenty bytes, again and again."""
    at = 0
    while at < len(content):
        end = content.find(b"\0", at)
        mode, space, name = content[at:end].partition(b" ") if end > 0 else (b"", b"", b"")
        if not space or end + 21 > len(content):
            raise TraceError("a folder in the history is cut short; bring back the run's history.git")
        yield name, TreeEntry(mode.decode("ascii", "replace"), content[end + 1 : end + 21].hex())
        at = end + 21
