"""Reads the git objects of a run's history without git, also of untrusted histories.

Objects are loose (zlib over ``KIND LENGTH NUL content``, named by SHA-1). They are in the history's own folder or in
those listed in its ``info/alternates``, as in a fork. Everything that is read is checked against its name.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular

# Git's mode of a submodule, which never occurs otherwise, marks a file that a layer removed.
FOLDER, LINK, EXECUTABLE, REMOVED = "40000", "120000", "100755", "160000"
_ID = re.compile(r"[0-9a-f]{40}")
LARGEST_BYTES = 512 * 1024 * 1024  # of an object, so that a hostile one cannot fill the memory
_FOLDERS_DEEP = 300


class TreeEntry(Struct, frozen=True):
    """One file of a tree."""

    mode: str  # ``100644``, ``100755`` (executable) or ``120000`` (a link, whose content is its target)
    id: str  # of its content


class Objects:
    """The objects of one history."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    def places(self) -> list[Path]:
        """Return the folders that contain objects, the history's own first."""
        own = self._git_dir / "objects"
        try:
            lines = read_regular(own / "info" / "alternates").splitlines()
        except OSError:
            lines = []
        return [own, *(own / os.fsdecode(line) for line in lines if line)]

    def path(self, name: str) -> Path:
        """Return the file that contains an object.

        Raise TraceError if the name is not valid, or the object does not exist.
        """
        if _ID.fullmatch(name):
            for folder in self.places():
                path = folder / name[:2] / name[2:]
                if path.is_file():
                    return path
        raise TraceError(
            f"the history {self._git_dir} lacks {name[:60]!a}, so the files of that moment are not available; restore "
            "the run's history.git (a fork shares that of its parent)"
        )

    def read(self, name: str, kind: str) -> bytes:
        """Return the content of an object. Raise TraceError if the object is missing, damaged, or of another kind."""
        path = self.path(name)
        try:
            raw = zlib.decompressobj().decompress(read_regular(path, LARGEST_BYTES), LARGEST_BYTES)
        except (OSError, zlib.error) as error:
            raise _damaged(path, str(error)) from error
        head, _, content = raw.partition(b"\0")
        if hashlib.sha1(raw, usedforsecurity=False).hexdigest() != name:
            raise _damaged(path, "its content does not match its name")
        if head != b"%s %d" % (kind.encode(), len(content)):
            raise _damaged(path, f"it is not a {kind}")
        return content

    def base(self) -> str:
        """Return the tree with the original content of files that the run changed, for a layer's history. Otherwise
        empty.
        """
        return self._remembered("base")

    def latest(self) -> str:
        """Return the tree of the last snapshot. Empty if there is none."""
        return self._remembered("tree")

    def _remembered(self, name: str) -> str:
        try:
            state = decode_json(read_regular(self._git_dir / "stackmem.json"), dict[str, object])
        except (OSError, msgspec.DecodeError):
            return ""
        return str(state.get(name, ""))

    def listing(self, tree: str) -> dict[bytes, TreeEntry]:
        """Return every file below a tree by its path, sorted.

        Raise TraceError if a tree is missing or damaged, or contains an entry that a workspace cannot have.
        """
        return dict(sorted(self._walk(tree, b"", 0)))

    def entries(self, tree: str) -> list[tuple[bytes, TreeEntry]]:
        """Return the direct entries of a tree by name. A folder has the mode ``40000`` and the id of its tree."""
        return list(_entries(self.read(tree, "tree")))

    def _walk(self, tree: str, path: bytes, depth: int) -> Iterator[tuple[bytes, TreeEntry]]:
        if depth > _FOLDERS_DEEP:
            raise _damaged(self.path(tree), "its folders are nested too deeply")
        for name, entry in _entries(self.read(tree, "tree")):
            if not name or name in (b".", b"..") or b"/" in name or name.lower() == b".git":
                raise _damaged(self.path(tree), f"it contains the name {name[:60]!a}")
            if entry.mode == FOLDER:
                yield from self._walk(entry.id, path + name + b"/", depth + 1)
            else:
                yield path + name, entry


def _entries(content: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yield the entries of a tree object, each ``MODE NAME NUL`` and twenty bytes."""
    at = 0
    while at < len(content):
        end = content.find(b"\0", at)
        mode, space, name = content[at:end].partition(b" ") if end > 0 else (b"", b"", b"")
        if not space or end + 21 > len(content):
            raise TraceError("a folder in the history is incomplete; restore the run's history.git")
        yield name, TreeEntry(mode.decode("ascii", "replace"), content[end + 1 : end + 21].hex())
        at = end + 21


def _damaged(path: Path, reason: str) -> TraceError:
    return TraceError(f"{path} is damaged ({reason}); restore the run's original history.git")
