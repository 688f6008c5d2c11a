"""Open and read untrusted files.

Only regular files are opened, so a FIFO or device never blocks stackmem, and every read has a limit. The limit counts
bytes read, so a file that grows meanwhile, or that reports a wrong size as in ``/proc``, cannot exceed it. All refusals
are ``OSError`` with a ``strerror`` that completes "FILE cannot be read (...)".
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

MAX_FILE_BYTES = 256 << 20
"""The default limit for a file that is read as a whole."""
MAX_LINE_BYTES = 256 << 20
"""The default limit for a line of a file that is read line by line; the file itself may be larger than memory."""
_BLOCK_BYTES = 1 << 20

StrPath = str | bytes | os.PathLike[str]


def open_regular(path: StrPath, *, follow: bool = True, dir_fd: int | None = None) -> BinaryIO:
    """Open a regular file for reading.

    ``follow`` says whether a symbolic link as the last component is followed. ``dir_fd`` is an open folder that a
    relative path starts from. Raise OSError if the file cannot be opened, or is not a regular file.
    """
    more = 0 if follow else os.O_NOFOLLOW
    return open(path, "rb", opener=lambda path, flags: descriptor_of_regular(path, flags | more, dir_fd=dir_fd))


def descriptor_of_regular(path: StrPath, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Open a regular file with the flags of ``os.open``, also for writing, if only a regular file may be at the
    path.

    Raise OSError if the file cannot be opened, or is not a regular file.
    """
    try:
        # Opening some devices has effects (a watchdog starts, a tape rewinds), so look before opening.
        status = os.stat(path, dir_fd=dir_fd, follow_symlinks=not flags & os.O_NOFOLLOW)
        if not stat.S_ISLNK(status.st_mode):  # the open itself refuses a link
            _refuse_special(status.st_mode, path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    # The path may have been replaced since: without O_NONBLOCK, opening a FIFO waits for its other end.
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, mode, dir_fd=dir_fd)
    try:
        _refuse_special(os.fstat(fd).st_mode, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def opener_of_regular(path: str, flags: int) -> int:
    """An opener for ``open``: opens only regular files, and creates files that only their owner can read."""
    return descriptor_of_regular(path, flags)


def _opener_of_new(path: str, flags: int) -> int:
    return descriptor_of_regular(path, flags, 0o666)


def read_regular(
    path: StrPath, limit: int = MAX_FILE_BYTES, *, follow: bool = True, dir_fd: int | None = None
) -> bytes:
    """Read a whole regular file of at most ``limit`` bytes.

    Raise OSError if the file cannot be read, is not a regular file, or is larger than the limit.
    """
    with open_regular(path, follow=follow, dir_fd=dir_fd) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_large(limit, path)
        content = _read(file, limit + 1)
    if len(content) > limit:
        raise _too_large(limit, path)
    return content


def read_regular_text(path: StrPath, limit: int = MAX_FILE_BYTES) -> str:
    """Read a whole regular file as UTF-8 with universal newlines, like ``Path.read_text``.

    Raises:
        OSError: As ``read_regular``.
        UnicodeDecodeError: The file is not UTF-8.
    """
    return read_regular(path, limit).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_start(path: StrPath, size: int, *, follow: bool = True, dir_fd: int | None = None) -> bytes:
    """Read the first ``size`` bytes of a regular file, or all of it if it is shorter; raises as ``open_regular``."""
    with open_regular(path, follow=follow, dir_fd=dir_fd) as file:
        return _read(file, size)


def digest_of_regular(path: StrPath, limit: int) -> str:
    """The SHA-256 of a regular file of at most ``limit`` bytes, in hex; raises as ``read_regular``."""
    import hashlib  # takes longer to import than the rest of this module

    digest = hashlib.sha256()
    with open_regular(path) as file:
        for block in bounded_blocks(file, limit):
            digest.update(block)
    return digest.hexdigest()


def copy_regular(source: StrPath, target: StrPath, limit: int) -> None:
    """Copy the bytes of a regular file of at most ``limit`` bytes; raises as ``read_regular``."""
    with open_regular(source) as file, open(target, "wb", opener=_opener_of_new) as copy:
        copy.writelines(bounded_blocks(file, limit))


def bounded_blocks(file: BinaryIO, limit: int) -> Iterator[bytes]:
    """Yield the content of an open file in blocks. Raise OSError if the file is larger than the limit."""
    if os.fstat(file.fileno()).st_size > limit:
        raise _too_large(limit, file.name)
    remaining = limit
    while block := file.read(_BLOCK_BYTES):
        remaining -= len(block)
        if remaining < 0:
            raise _too_large(limit, file.name)
        yield block


def bounded_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of an open file with their newlines; the last one may lack it.

    Raise OSError if a line is longer than the limit.
    """
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise OSError(errno.EOVERFLOW, f"line {number:,} is longer than {spelled_size(limit)}", file.name)
        yield line


def spelled_size(size: int) -> str:
    """Format a limit, as in ``64 MiB``."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


def _read(file: BinaryIO, size: int) -> bytes:
    """Read at most ``size`` bytes. A kernel file without data yet (``/proc/kmsg``) counts as ended."""
    blocks = []
    while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)


def _refuse_special(mode: int, path: StrPath) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "special file")
        raise OSError(errno.EINVAL, f"it is a {kind}, not a regular file", path)


_KINDS = ((stat.S_ISFIFO, "FIFO"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"), (stat.S_ISSOCK, "socket"))


def _too_large(limit: int, path: object) -> OSError:
    return OSError(errno.EOVERFLOW, f"it is larger than {spelled_size(limit)}, the limit", path)
