"""Writing a file so that it is whole at every moment: a new one beside it, then one rename.

What stands at the name is replaced, never written through: a hard link to a file outside is broken, and a symlink
put there in the last moment is replaced too.
"""

from __future__ import annotations

import contextlib
import os
import secrets

TEMPORARY_PREFIX = ".stackmem-"
"""Begins the name of a file that is not whole yet; one that is still there was left by a process that was killed."""

_NEW_FILE_MODE = 0o644
_PERMISSIONS = 0o777  # setuid, setgid and sticky do not survive a write


def replace(directory: int, name: bytes, content: bytes, before: os.stat_result | None) -> None:
    """Let ``name`` in an open directory hold exactly ``content``; on OSError it holds what it held.

    ``before`` is the regular file that is replaced: its permissions and, where allowed, its owner stay.
    """
    temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp".encode()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(OSError):  # only root gives files away
                    os.fchown(fd, before.st_uid, before.st_gid)
            os.fchmod(fd, before.st_mode & _PERMISSIONS if before else _NEW_FILE_MODE)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
