"""Creates files of a run so that only their owner can read them: they contain prompts, files and the user's answers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stackmem.core.text import whole_value
from stackmem.foreign.files import descriptor_of_regular


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
