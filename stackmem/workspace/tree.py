"""Whole directory trees, also such as a hostile command leaves behind."""

from __future__ import annotations

import os
import stat
import subprocess
from collections import Counter
from pathlib import Path

from stackmem.errors import WorkspaceError

from .beneath import opener_for
from .clip import shown_name

LINKED_NAMES = 20  # named in one warning
_LOOKED_AT = 200_000  # entries; a larger tree is looked through in part


def linked_files(root: Path) -> list[str]:
    """Files below ``root`` that have another name outside it, which an in-place write would change too.

    At most ``LINKED_NAMES``, as ``shown_name`` spells them, relative to the root. Links among files of the tree itself
    are not meant. What cannot be read, and what lies deeper than a path can say, is left out.

    Raises:
        OSError: ``root`` is no directory.

    """
    names: dict[tuple[int, int], bytes] = {}
    links: dict[tuple[int, int], int] = {}
    inside: Counter[tuple[int, int]] = Counter()
    todo, looked_at = [b"."], 0
    base = os.open(root, os.O_PATH | os.O_DIRECTORY)
    opener = opener_for(base)
    try:
        while todo and looked_at < _LOOKED_AT:
            directory = todo.pop()
            try:
                fd = opener(base, directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                for name, status in _entries(fd):
                    looked_at += 1
                    path = name if directory == b"." else directory + b"/" + name
                    key = (status.st_dev, status.st_ino)
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(path)
                    elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                        names.setdefault(key, path)
                        links[key] = status.st_nlink
                        inside[key] += 1
            finally:
                os.close(fd)
    finally:
        os.close(base)
    outside = sorted(path for key, path in names.items() if links[key] > inside[key])
    return [shown_name(path) for path in outside[:LINKED_NAMES]]


def _entries(fd: int) -> list[tuple[bytes, os.stat_result]]:
    found = []
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                found.append((os.fsencode(entry.name), entry.stat(follow_symlinks=False)))
            except OSError:
                continue
            if len(found) == _LOOKED_AT:
                break
    return found


def remove_tree(path: Path) -> None:
    """Remove a tree of any depth, also where directories forbid it; a missing one is no error, a link is not followed.

    Raises:
        WorkspaceError: Something is left: another user's file, or a mount.

    """
    # shutil.rmtree recurses, and fails a thousand levels down.
    removed = _run("rm", "-rf", "--", os.fspath(path))
    if removed.returncode and not path.is_symlink():
        _run("chmod", "-R", "u+rwX", "--", os.fspath(path))
        removed = _run("rm", "-rf", "--", os.fspath(path))
    if removed.returncode:
        why = shown_name(removed.stderr.strip().split(b"\n")[-1])[-300:]
        raise WorkspaceError(f"cannot remove {shown_name(os.fspath(path))} ({why}); remove it by hand")


def _run(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
