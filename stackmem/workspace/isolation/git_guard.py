"""Keeps a command from planting git hooks or configuration, which the host's git would run later."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress


def guarded_git(workspace: int, path: str, stack: ExitStack) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Bind ``.git`` onto itself (it cannot be moved then) and its hooks and configuration read-only.

    Only a folder that is really there is bound: no link is followed, no other file system entered, nothing created.
    A ``.git`` that is a file or a link (worktrees, submodules) is left as it is.

    Returns the descriptors to inherit, and the words for bubblewrap.
    """
    git = _folder(workspace, ".git", stack)
    config = -1 if git < 0 else _regular(git, "config", stack)
    if git < 0 or config < 0:
        return (), ()
    sealed = {"config": config, "hooks": _folder(git, "hooks", stack)}
    found = {name: fd for name, fd in sealed.items() if fd >= 0}
    words = [word for name, fd in found.items() for word in ("--ro-bind-fd", str(fd), f"{path}/.git/{name}")]
    return (git, *found.values()), ("--bind-fd", str(git), f"{path}/.git", *words)


def _folder(parent: int, name: str, stack: ExitStack) -> int:
    return _open(parent, name, os.O_DIRECTORY, stack)


def _regular(parent: int, name: str, stack: ExitStack) -> int:
    fd = _open(parent, name, 0, stack)
    return fd if fd >= 0 and stat.S_ISREG(os.fstat(fd).st_mode) else -1


def _open(parent: int, name: str, flags: int, stack: ExitStack) -> int:
    """Open one name; one component without links cannot leave the parent, and a mount point is told by its device."""
    fd = -1
    with suppress(OSError):
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=parent)
        stack.callback(os.close, fd)
        if os.fstat(fd).st_dev != os.fstat(parent).st_dev:
            return -1
    return fd
