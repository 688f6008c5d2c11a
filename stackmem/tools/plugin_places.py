"""Where plug-ins are installed, and whether any is: the help asks that, and loads nothing more where none is."""

from __future__ import annotations

import site
from contextlib import suppress
from pathlib import Path

GROUP = "stackmem.plugins"
"""The group of entry points; each names a ``Plugin``."""


def places() -> tuple[str, ...]:
    """The folders in which this interpreter keeps packages."""
    users = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return (*site.getsitepackages(), *([users] if users else []))


def any_plugin() -> bool:
    """Whether a package names one."""
    for place in places():
        for points in Path(place).glob("*.dist-info/entry_points.txt"):
            with suppress(OSError):
                if GROUP.encode() in points.read_bytes():
                    return True
    return False
