"""Files of a run are their owner's alone: prompts, files and answers of the person stand in them."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

_MOST_BYTES = 256 << 20


def owners(path: str, flags: int) -> int:
    """An opener for ``open``: what it makes, only its owner may read and write."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def regular(path: str, flags: int) -> int:
    """An opener for ``open``: reads a file, and never waits for a FIFO or a device that stands in its place."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return fd


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """A whole file; raises ``OSError``, also where it is none, or larger than any that is read so."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {_MOST_BYTES >> 20} MiB", path)
        return file.read()


def write_json(path: Path, value: Any) -> None:
    """Write a value in lines that people can read, whole or not at all; raises ``OSError``."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        with open(fresh, "wb", opener=owners) as file:
            file.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2) + b"\n")
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
