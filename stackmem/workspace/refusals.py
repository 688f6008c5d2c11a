"""Error messages for the model when the system refuses an operation: one sentence with what to do."""

from __future__ import annotations

import errno
import os
import stat
from typing import Literal

from .clip import cut, shown_name

_NAME_BYTES = 200  # maximum length of a path in a message
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

Action = Literal["read", "write", "list"]


class ToolRefused(Exception):  # noqa: N818 - the model's mistake, not a program error
    """Raised if a file tool refuses; the message is the answer. It never leaves the file tools."""


def refusal(error: OSError, action: Action, name: str, inside: str) -> str:
    """Return the message for a failed system call on ``name``; ``inside`` is the workspace's path."""
    match error.errno:
        case errno.EXDEV:
            return (
                f"{name} is outside the workspace, or an absolute symlink, which counts as outside wherever it points;"
                f" use a path below {inside}"
            )
        case errno.ENOENT:
            way_out = ", write_file creates a file" if action != "list" else ""
            return f"{name} does not exist; list_files shows what does{way_out}"
        case errno.ENOTDIR if action == "list":
            return f"{name} is not a directory, or leads through a file; read_file reads it, run_command runs a program"
        case errno.ENOTDIR:
            return f"{name} leads through something that is not a directory; list_files with path . shows what is there"
        case errno.EISDIR:
            return f"{name} is a directory; use the path of a file"
        case errno.ENXIO:
            return f"{name} is not a regular file, but a socket or a device; use another path"
        case errno.ELOOP:
            return f"{name} is a loop of symlinks, or goes through more than 40; use the path of the file itself"
        case errno.EACCES | errno.EPERM:
            return f"no permission to {action} {name}; change its mode with run_command, or use another path"
        case errno.ENAMETOOLONG:
            return f"{name} is too long: a name has at most 255 bytes, a path 4,095; use a shorter one"
        case errno.EAGAIN:
            return f"{name} could not be followed while directories are being renamed; try again"
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk is full, and {name} is as it was; remove what is not needed with run_command"
        case errno.EROFS:
            return f"{name} is among the installed packages, which are read-only in this run; use another path"
        case errno.EFBIG:
            return f"{name} would be larger than a file may be here, and is as it was; write less"
        case _:
            return f"{name}: {error.strerror or 'unknown failure'}; try again, or use another path"


def quote(path: str) -> str:
    """Return the path in quotes, safe to display and shortened if necessary."""
    name = shown_name(path)
    return f"'{name}'" if len(name.encode()) <= _NAME_BYTES else f"'{cut(name, _NAME_BYTES)}…'"


def other_kind(path: str, status: os.stat_result) -> str:
    """Return the message for a path that is not a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return f"{quote(path)} is a directory; list_files shows what it holds"
    return f"{quote(path)} is not a regular file, but {_KINDS.get(kind, 'of another kind')}; use another path"
