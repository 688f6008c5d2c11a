"""Finds whether any plug-in is installed. The help needs this check without loading anything else."""

from __future__ import annotations

import site
from contextlib import suppress
from pathlib import Path

GROUP = "stackmem.plugins"
"""The entry point group; each entry names a ``Plugin``."""


def places() -> tuple[str, ...]:
    """Return the folders in which this interpreter keeps packages."""
    users = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return (*site.getsitepackages(), *([users] if users else []))


def any_plugin() -> bool:
    """Return whether any package defines a plug-in."""
    for location in places():
        for points in Path(location).glob("*.dist-info/entry_points.txt"):
            with suppress(OSError):
                if GROUP.encode() in points.read_bytes():
                    return True
    return False
