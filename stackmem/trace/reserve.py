"""Room on the disk that a run takes at its start, so that its end can be written though the disk is full.

Rule 1: it is a file without a name, so that it is gone with the process, however that dies.
Rule 2: whoever gives it back once has none any more: what then fits is for the end alone.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

RESERVE_BYTES = 512 * 1024
"""Sixty times what a measured end took: its last records, its result and a small patch."""

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class Reserve:
    """Room in the file system of a folder, held until ``release`` or the end of the process.

    Attributes:
        released: Whether it was given back.
    """

    def __init__(self, folder: Path, size: int = RESERVE_BYTES) -> None:
        """Take it; where a file system cannot set room aside, there is none to give back.

        Raises:
            OSError: There is no room.
        """
        self.released = False
        self._file = _nameless(folder)
        try:
            os.posix_fallocate(self._file, 0, size)
        except OSError as error:
            if error.errno in NO_ROOM:
                self.release()
                raise

    def release(self) -> None:
        """Give it back; a second time does nothing."""
        self.released = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _nameless(folder: Path) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
    file, name = tempfile.mkstemp(dir=folder)  # a file system without files that have no name
    Path(name).unlink()
    return file
