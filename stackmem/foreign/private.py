"""Files that only their owner can read.

The files of a run contain prompts, files and the user's answers. Keys are secret, and created once.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stackmem.core.errors import UsageError
from stackmem.core.text import whole_value

from .files import descriptor_of_regular, open_regular

_MAX_KEY_BYTES = 1 << 20


def owners(path: str, flags: int) -> int:
    """Open a file for ``open(opener=...)``. Only the owner can read and write a new file."""
    return descriptor_of_regular(path, flags)


def _encoded(value: Any) -> bytes:
    """Encode a value as JSON. Bytes in a path that are not UTF-8 are replaced."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_value(msgspec.to_builtins(value, enc_hook=str)))


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON, completely or not at all. Raise OSError if the file cannot be written."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)  # leftovers, including a link that leads elsewhere
        with open(fresh, "xb", opener=owners) as file:
            file.write(msgspec.json.format(_encoded(value), indent=2) + b"\n")
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


class UnusableKey(UsageError):  # noqa: N818 - the reason for a missing key; most callers continue without a key
    """A key cannot be read or created. The message gives the reason and the fix."""


def read_key_file(path: Path) -> bytes | None:
    """Return a key that only its owner can access, or None if the file does not exist.

    Raise UnusableKey if the file cannot be read, or other users can access it.
    """
    try:
        with open_regular(path) as file:
            status, content = os.fstat(file.fileno()), file.read(_MAX_KEY_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableKey(f"the key {path} cannot be read ({error.strerror}); make it readable") from error
    if status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise UnusableKey(f"the key {path} is open to other users, who may have read it; remove it to get a new one")
    return content


def create_key_file(path: Path, content: bytes) -> bytes:
    """Create a key, and return it; if another process was first, return that one's key.

    Raise UnusableKey if the file cannot be created, or read back.
    """
    fresh = path.with_name(f".{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(fresh, "xb", opener=owners) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first; use its key
                os.link(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise UnusableKey(
            f"the key {path} cannot be created ({error.strerror}); free disk space or fix the permissions"
        ) from error
    return read_key_file(path) or content
