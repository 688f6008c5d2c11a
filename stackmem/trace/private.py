"""Files of a run are their owner's alone: prompts, files and answers of the person stand in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec


def owners(path: str, flags: int) -> int:
    """An opener for ``open``: what it makes, only its owner may read and write."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def write_json(path: Path, value: Any) -> None:
    """Write a value in lines that people can read; raises ``OSError``."""
    with open(path, "wb", opener=owners) as file:
        file.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2) + b"\n")
