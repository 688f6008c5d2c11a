"""Finds whether any plug-in is installed. The help needs it without slow imports like ``pathlib``."""

from __future__ import annotations

import os
import site
import sys
from contextlib import suppress

from stackmem.foreign.files import read_regular

GROUP = "stackmem.plugins"
"""The entry point group; each entry names a ``Plugin``."""


def places() -> tuple[str, ...]:
    """Return the folders in which this interpreter keeps packages."""
    users = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return (*site.getsitepackages(), *([users] if users else []))


def ignored_plugins() -> dict[str, str]:
    """Return the packages with plug-ins that can be imported but do not count, and their folders.

    They are in a folder of ``PYTHONPATH`` or in the working directory, and their files are not run.
    """
    from pathlib import Path

    counted, by_package = {Path(path).resolve() for path in places()}, dict[str, str]()
    for folder in map(Path, sys.path):
        with suppress(OSError):
            for points in sorted(folder.glob("*.*-info/entry_points.txt")) if folder.resolve() not in counted else ():
                if GROUP.encode() in read_regular(points):
                    name, _, version = points.parent.stem.partition("-")
                    by_package.setdefault(f"{name} {version}".strip(), str(folder.resolve()))
    return {name: folder for name, folder in by_package.items() if name not in _counted_names()}


def _counted_names() -> frozenset[str]:
    from pathlib import Path

    return frozenset(
        " ".join(info.stem.partition("-")[::2]).strip()
        for path in places() for info in Path(path).glob("*.*-info")
    )  # fmt: skip


def ignored_note() -> str:
    """Return how to use the plug-ins that do not count, to follow an error, or an empty string."""
    if not (ignored := ignored_plugins()):
        return ""
    names = ", ".join(f"{name} in {folder}" for name, folder in list(ignored.items())[:3])
    return (
        f"not used: {names}; a plug-in counts only if it is installed in {places()[0]}: {sys.executable} -m pip install"
    )


def any_plugin() -> bool:
    """Return whether any package defines a plug-in."""
    for location in places():
        with suppress(OSError), os.scandir(location) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if GROUP.encode() in read_regular(f"{entry.path}/entry_points.txt"):
                            return True
    return False
