"""Determines what an overlay over the user's folder hides: the same files that a copy leaves out, found by name only.

No file is opened and no status is read for most files, so even a large folder is scanned quickly.
"""

# Paths are bytes here, since a name need not be text.
# ruff: noqa: PTH116, PTH118

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.workspace.clip import shown_name

from .git import USER_GIT_SECONDS, git, user_git_environment
from .selection import DEPENDENCIES, Picked, in_work_tree, included, own_below, real_folder

_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_SECRETS = (b".env", b".env.local", b".env.development", b".env.production", b".env.test", b".envrc")
"""Hidden at the top of the folder even if they do not exist yet, in case the user creates one during the run."""
_ESCAPES = {b"\\040": b" ", b"\\011": b"\t", b"\\012": b"\n", b"\\134": b"\\"}


class LayerPlan(Struct, frozen=True):
    """What an overlay over a folder will show. Paths are relative to it and spelled by ``shown_name``."""

    files: int  # number of regular files and links
    folders: tuple[str, ...] = ()  # dependency folders among them (``.venv``, ``venv``, ``node_modules``)
    # hidden although not ignored: ``.env*``, sockets, FIFOs, devices, stackmem's folders
    skipped: tuple[str, ...] = ()
    outside_links: tuple[str, ...] = ()  # links to targets outside the folder, which may be missing in the sandbox
    hidden: tuple[bytes, ...] = ()  # all hidden paths, as bytes
    obstacle: str = ""  # why no overlay is possible; empty if it is


def plan_layer(folder: Path, include: tuple[str, ...] = (), own: Iterable[Path] = ()) -> LayerPlan:
    """Return what an overlay over the folder would show now.

    Raise UsageError if the folder does not exist, part of it cannot be read, or ``include`` names a path that is never
    shown.

    Args:
        include: Paths below the folder that are shown even if git ignores them.
        own: stackmem's runs and sandbox folders, which are never shown.
    """
    folder = real_folder(folder)
    look = _FolderScan(folder, include, own_below(folder, own))
    look.walk()
    return LayerPlan(
        files=look.files,
        folders=tuple(map(shown_name, sorted(look.dependencies))),
        skipped=tuple(map(shown_name, sorted(look.skipped))),
        outside_links=tuple(map(shown_name, sorted(look.outside))),
        hidden=tuple(sorted({*look.hidden, *_SECRETS} - look.open_env)),
        obstacle=look.foreign or _mount_point_in(os.fsencode(folder)),
    )


class _FolderScan:
    def __init__(self, folder: Path, include: tuple[str, ...], own: Iterable[Path]) -> None:
        self.files = 0
        self.hidden: list[bytes] = []
        self.dependencies: list[bytes] = []
        self.outside: list[bytes] = []
        self.foreign = ""
        self._root = os.fsencode(folder)
        self._picked = Picked(self._root, own)
        self.skipped, self.open_env = self._picked.skipped, self._picked.open_env
        self._shown = [self._included(folder, name) for name in include]
        self._above = {parent for path in self._shown for parent in _folders(path)}
        self._work_tree = in_work_tree(folder)
        self._ignored = self._ask(b"") if self._work_tree else set()
        self._tracked = b"\0" + self._git(b"", "ls-files", "-z") if self._work_tree else b""

    def _included(self, folder: Path, name: str) -> bytes:
        path = included(folder, name)
        self._picked.include(path, name)
        return path

    def _git(self, folder: bytes, *words: str) -> bytes:
        path = Path(os.fsdecode(self._at(folder)))
        return git(*words, cwd=path, environment=user_git_environment(), seconds=USER_GIT_SECONDS)

    def _ask(self, folder: bytes) -> set[bytes]:
        """Return what git ignores in the repository in ``folder``. An ignored folder is listed instead of its
        content.
        """
        listed = self._git(folder, *_IGNORED).split(b"\0")[:-1]
        return {(folder + b"/" if folder else b"") + path.rstrip(b"/") for path in listed}

    def _at(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root

    def walk(self) -> None:
        """Scan all names. Everything in a dependency folder is visible, even if it is ignored."""
        todo = [(b"", False)]
        while todo:
            folder, visible = todo.pop()
            entries = self._entries(folder)
            if folder and not visible and self._work_tree and any(entry.name == b".git" for entry in entries):
                self._ignored |= self._ask(folder)
            prefix = folder + b"/" if folder else b""
            for entry in entries:
                path = prefix + entry.name
                plain = entry.name[:1] != b"." and entry.is_file(follow_symlinks=False)
                if plain and (visible or path not in self._ignored):  # fast path for most entries
                    self.files += 1
                    continue
                deep = self._sort_entry(path, entry, visible=visible)
                if deep is not None:
                    todo.append((path, deep))

    def _entries(self, folder: bytes) -> list[os.DirEntry[bytes]]:
        try:
            if os.stat(self._at(folder)).st_uid != os.geteuid() and not self.foreign:
                self.foreign = f"{shown_name(self._at(folder))} belongs to another user"
            with os.scandir(self._at(folder)) as entries:
                return list(entries)
        except OSError as error:
            raise UsageError(
                f"cannot read {shown_name(folder) or '.'} in {shown_name(self._root)}; make it readable, or add it to "
                ".gitignore"
            ) from error

    def _sort_entry(self, path: bytes, entry: os.DirEntry[bytes], *, visible: bool) -> bool | None:
        """Count or hide an entry. Returns None, or for a folder to scan whether all its content is visible."""
        if self._picked.never(path):
            self.hidden.append(path)
            return None
        folder = entry.is_dir(follow_symlinks=False)
        visible = visible or path in self._shown
        if folder and entry.name in DEPENDENCIES:
            if self._installed(path):
                self.dependencies.append(path)
            return True
        if not visible and path in self._ignored:
            if path not in self._above:
                self.hidden.append(path)
                return None
            self._ignored.update(path + b"/" + name for name in os.listdir(self._at(path)))
        if folder:
            return visible
        if entry.is_symlink():
            self._note_link(path)
        elif not entry.is_file(follow_symlinks=False):
            self.skipped.add(path)
            self.hidden.append(path)
            return None
        self.files += 1
        return None

    def _installed(self, path: bytes) -> bool:
        name = path.rpartition(b"/")[2]
        if any(path.startswith(parent + b"/") for parent in self.dependencies):
            return False  # part of a dependency folder
        tracked = b"\0" + path + b"/" in self._tracked
        return not tracked and (name != b"venv" or os.path.lexists(self._at(path + b"/pyvenv.cfg")))

    def _note_link(self, path: bytes) -> None:
        if any(path.startswith(parent + b"/") for parent in self.dependencies):
            return  # normal for installed packages
        at = self._at(path)
        try:
            target = os.path.normpath(os.path.join(os.path.dirname(at), os.readlink(at)))  # noqa: PTH115, PTH120
        except OSError:
            return
        if target != self._root and not target.startswith(self._root + b"/"):
            self.outside.append(path)


def _folders(path: bytes) -> Iterator[bytes]:
    while path := path.rpartition(b"/")[0]:
        yield path


def _mount_point_in(root: bytes) -> str:
    """Return why a mount point prevents an overlay, which would show what is under the mount; empty if there is
    none.
    """
    try:
        mounts = mounts_below(root)
    except OSError as error:
        return f"/proc/self/mountinfo cannot be read ({error.strerror})"
    return f"{shown_name(root + b'/' + mounts[0])} is a mount point" if mounts else ""


def mounts_below(root: bytes) -> list[bytes]:
    """Return the mount points in a folder, relative to it. Raises ``OSError`` if they cannot be determined."""
    paths = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        path = line.split(b" ")[4]
        for escape, byte in _ESCAPES.items():
            path = path.replace(escape, byte)
        if path.startswith(root + b"/"):
            paths.append(path[len(root) + 1 :])
    return paths
