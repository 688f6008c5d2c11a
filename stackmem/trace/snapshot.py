"""The files of a run at one moment, read from its history on access."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct

from stackmem.core.errors import TraceError
from stackmem.core.facts import Event
from stackmem.core.parallel.facts import FrameReturned

from .objects import EXECUTABLE, LINK, REMOVED, Objects, TreeEntry

_DIFFED_BYTES = 400_000
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def tree_of(event: Event) -> str:
    """Return the workspace after a fact, as a tree. Empty if the fact cannot have changed it."""
    # a parallel frame's tree is in that frame's history
    tree: str = "" if isinstance(event, FrameReturned) else getattr(event, "tree", "")
    return tree


class Snapshot:
    """Maps paths to contents, read-only. Paths are spelled as by ``os.fsdecode``.

    Files that a history never stores are missing: ``.git``, empty folders, ignored and over-large files; so are file
    times. If the run worked in a layer over a folder, files that it never changed are missing too.
    """

    def __init__(self, git_dir: Path, tree: str) -> None:
        self.tree = tree  # its id in the history; empty if the run stored none
        self._objects = Objects(git_dir)

    @cached_property
    def entries(self) -> dict[str, TreeEntry]:
        """Mode and id of every file by its path, sorted.

        Raise TraceError if the history is damaged or lacks a part of the tree.
        """
        if not self.tree:
            return {}
        listing = self._objects.listing(self.tree)
        if base := self._objects.base():
            # The base comes first, so that the run overrides it. Removed files have a special mode.
            both = self._objects.listing(base) | listing
            listing = {path: both[path] for path in sorted(both) if both[path].mode != REMOVED}
        return {os.fsdecode(path): entry for path, entry in listing.items()}

    @property
    def of_layer(self) -> bool:
        """Whether only files that the run changed at some time are included. The others are in the folder of the
        layer.
        """
        return bool(self._objects.base())

    def __getitem__(self, path: str) -> bytes:
        """Return the content of a file, or the target of a link."""
        return self._objects.read(self.entries[path].id, "blob")

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, path: object) -> bool:
        return path in self.entries

    def get(self, path: str, otherwise: bytes) -> bytes:
        return self[path] if path in self.entries else otherwise

    def keys(self) -> list[str]:
        return list(self.entries)

    def write_into(self, folder: Path) -> None:
        """Write every file below an empty folder. Links come last, so that no file is written through one.

        Raise TraceError if a file is not available, and OSError if the folder cannot be written.
        """
        files = sorted(self.entries.items(), key=lambda item: item[1].mode == LINK)
        for path, entry in files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.mode == LINK:
                os.symlink(self[path], os.fsencode(target))  # noqa: PTH211 - a target need not be text
                continue
            # A damaged history may list a path twice, or below a link: neither is followed or overwritten.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(target, flags, 0o755 if entry.mode == EXECUTABLE else 0o644)
            with os.fdopen(fd, "wb") as file:
                file.write(self[path])


class FileChange(Struct, frozen=True):
    r"""One file that differs between two moments."""

    path: str  # with ``\xNN`` for bytes that are not UTF-8
    kind: Literal["added", "modified", "deleted"]
    diff: str = ""  # a unified diff, or one sentence if the file is not text or too long to compare


def changes(
    before: Snapshot, after: Snapshot, paths: Iterable[str] | None = None, *, diffs: bool = True
) -> list[FileChange]:
    """Return the changes of all files, or of ``paths``, in the order of their paths.

    Raise TraceError if one of the snapshots is not available.
    """
    if before.tree == after.tree:
        return []
    among = sorted(before.entries.keys() | after.entries.keys()) if paths is None else paths
    changed = [path for path in among if before.entries.get(path) != after.entries.get(path)]
    return [_change(path, before, after, diffs=diffs) for path in changed]


def _change(path: str, before: Snapshot, after: Snapshot, *, diffs: bool) -> FileChange:
    kind: Literal["added", "modified", "deleted"]
    kind = "added" if path not in before else "deleted" if path not in after else "modified"
    return FileChange(_readable_path(path), kind, _diff(path, before, after) if diffs else "")


def _readable_path(path: str) -> str:
    # A name is bytes on Linux; surrogates could not be written as JSON.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _diff(path: str, before: Snapshot, after: Snapshot) -> str:
    sides = []
    for side in (before, after):
        try:
            sides.append(side.get(path, b""))
        except TraceError as error:
            return f"({error})"
    # difflib takes quadratic time in the worst case.
    if sum(map(len, sides)) > _DIFFED_BYTES:
        return f"({len(sides[0]):,} bytes before, {len(sides[1]):,} after: too long to compare here)"
    try:
        old, new = (side.decode("utf-8") for side in sides)
    except UnicodeDecodeError:
        old = new = "\0"
    if _CONTROL.search(old.replace("\r\n", "\n") + new.replace("\r\n", "\n")):
        return f"(not text: {len(sides[0]):,} bytes before, {len(sides[1]):,} after)"
    modes = [side.entries[path].mode if path in side else "" for side in (before, after)]
    head = [f"mode {modes[0]} -> {modes[1]}"] if modes[0] and modes[1] and modes[0] != modes[1] else []
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(),
        f"a/{_readable_path(path)}" if path in before else "/dev/null",
        f"b/{_readable_path(path)}" if path in after else "/dev/null",
        lineterm="",
    )  # fmt: skip
    return "\n".join([*head, *lines])
