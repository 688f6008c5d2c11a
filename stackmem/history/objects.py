"""Writes files and folders as git objects without running git: byte for byte, ignoring attributes of the workspace.

``git add`` would run filters, convert line endings, and store a nested repository as a commit id. The objects are in
git's format (``gitformat-loose``: zlib over ``KIND LENGTH NUL content``, named by SHA-1), so git can read them.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.files import read_regular

from .durable import make_durable

FILE, EXECUTABLE, LINK, FOLDER = "100644", "100755", "120000", "40000"
REMOVED = "160000"  # git's mode for submodule commits, which never occur in a workspace's history


class Node(Struct, frozen=True):
    """A named entry in a folder."""

    mode: str  # git's mode: FILE, EXECUTABLE, LINK or FOLDER
    id: str  # 40 hexadecimal digits


DELETED = Node(REMOVED, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
"""Marks a deleted file of the folder in a tree of changes."""


def object_id(kind: str, content: bytes) -> str:
    return hashlib.sha1(_framed(kind, content), usedforsecurity=False).hexdigest()


def _framed(kind: str, content: bytes) -> bytes:
    return b"%s %d\0%s" % (kind.encode(), len(content), content)


class ObjectStore:
    """The objects of one git directory, created if missing. Objects are never overwritten or removed.

    Objects in stores listed in ``info/alternates`` are not written again.
    """

    def __init__(self, git_dir: Path) -> None:
        self._objects = os.fspath(git_dir / "objects")
        self._known: set[str] = set()
        self._unforced: list[str] = []
        try:
            for name in ("objects", "refs", "info"):
                (git_dir / name).mkdir(parents=True, exist_ok=True)
            (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
            (git_dir / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        except OSError as error:
            raise _unwritable(error, git_dir) from error
        self._places = (self._objects, *alternates(git_dir))

    def add(self, kind: str, content: bytes) -> str:
        """Write an object unless it exists, and return its id.

        Raise WorkspaceError if the object cannot be written, because the disk is full or read-only. Existing objects
        are intact.
        """
        raw = _framed(kind, content)
        name = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        if name not in self._known:
            folder = f"{self._objects}/{name[:2]}"
            path = f"{folder}/{name[2:]}"
            try:
                # Path objects for 100,000 files would take a second.
                if not any(os.path.exists(f"{root}/{name[:2]}/{name[2:]}") for root in self._places):  # noqa: PTH110
                    self._write(folder, path, zlib.compress(raw, 1))
            except OSError as error:
                raise _unwritable(error, Path(self._objects)) from error
            self._known.add(name)
        return name

    def _write(self, folder: str, path: str, packed: bytes) -> None:
        temporary = f"{self._objects}/unfinished_{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600)
        try:
            remaining = memoryview(packed)
            while remaining:
                remaining = remaining[os.write(fd, remaining) :]
        finally:
            os.close(fd)
        try:
            os.rename(temporary, path)  # noqa: PTH104
        except FileNotFoundError:
            os.mkdir(folder)  # noqa: PTH102
            os.rename(temporary, path)  # noqa: PTH104
        self._unforced.append(path)

    def sync(self) -> None:
        """Make all objects so far survive a power loss. Raise WorkspaceError if the disk reports an error."""
        fresh, self._unforced = self._unforced, []
        try:
            if fresh:
                make_durable(fresh, Path(self._objects))
        except OSError as error:
            raise _unwritable(error, Path(self._objects)) from error

    def add_folders(self, files: Iterable[tuple[bytes, Node]]) -> str:
        """Write the folders for these files, given by path, and return the id of the root."""
        folders: dict[bytes, list[tuple[bytes, bytes]]] = {b"": []}
        for path, node in files:
            folder, _, name = path.rpartition(b"/")
            into = folders.get(folder)
            if into is None:
                into = _new_folder(folders, folder)
            into.append((name, _line(name, node)))
        deepest_first = sorted(folders, key=lambda path: path.count(b"/") + bool(path), reverse=True)
        for path in deepest_first[:-1]:
            parent, _, name = path.rpartition(b"/")
            node = Node(FOLDER, self.add("tree", _content(folders.pop(path))))
            # git sorts folders as if their name ended in a slash
            folders[parent].append((name + b"/", _line(name, node)))
        return self.add("tree", _content(folders[b""]))


def alternates(git_dir: Path) -> list[str]:
    """Return the object folders of other stores that this one reads from, as git resolves them."""
    objects = git_dir / "objects"
    try:
        lines = read_regular(objects / "info" / "alternates").splitlines()
    except OSError:
        return []
    return [os.path.normpath(objects / os.fsdecode(line)) for line in lines if line]


def _new_folder(folders: dict[bytes, list[tuple[bytes, bytes]]], path: bytes) -> list[tuple[bytes, bytes]]:
    fresh = folders[path] = []
    parent = path.rpartition(b"/")[0]
    while parent not in folders:
        folders[parent] = []
        parent = parent.rpartition(b"/")[0]
    return fresh


def _line(name: bytes, node: Node) -> bytes:
    return b"%s %s\0%s" % (node.mode.encode(), name, bytes.fromhex(node.id))


def _content(lines: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(line for _, line in sorted(lines))


def _unwritable(error: OSError, path: Path) -> WorkspaceError:
    return WorkspaceError(
        f"cannot store the files of the run in {path} ({error.strerror}); free disk space, or choose another directory"
    )
