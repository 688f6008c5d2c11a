"""Files of a run are their owner's alone: prompts, files and answers of the person stand in them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stackmem.core.text import whole_value
from stackmem.foreign.files import descriptor_of_regular


def owners(path: str, flags: int) -> int:
    """An opener for ``open``: what it makes, only its owner may read and write."""
    return descriptor_of_regular(path, flags)


def _encoded(value: Any) -> bytes:
    """The value as JSON; bytes in a path that are not UTF-8 are replaced."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_value(msgspec.to_builtins(value, enc_hook=str)))


def write_json(path: Path, value: Any) -> None:
    """Write a value in lines that people can read, whole or not at all; raises ``OSError``."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)  # whatever was left there, also a link that leads elsewhere
        with open(fresh, "xb", opener=owners) as file:
            file.write(msgspec.json.format(_encoded(value), indent=2) + b"\n")
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
