"""Covers folders that commands must not see inside folders that they do see: the hidden tests of tasks.

This is needed because stackmem may be installed below ``/usr``, or into the Python that commands use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

OWN_TASKS = Path(__file__).resolve().parents[1] / "_tasks"
"""The shipped tasks of an installed stackmem; a checkout has them elsewhere."""


def places_to_cover(
    hidden: Iterable[Path], mounts: Iterable[tuple[str, str]], needed: Iterable[str | Path] = ()
) -> list[str]:
    """Return the paths inside the sandbox of the hidden folders, without any that are inside another.

    Args:
        hidden: Host folders. A hidden folder that is itself mounted was granted, and is not covered.
        mounts: Pairs of a host path and the path at which commands see it.
        needed: Host paths that commands must reach at their host location.
    """
    reached = [os.path.realpath(path) for path in needed]
    # If the user has no access, neither do commands: isdir is False, and nothing needs to be covered.
    folders = [path.resolve() for path in hidden if os.path.isdir(path)]  # noqa: PTH112
    real = [path for path in folders if not any(Path(each).is_relative_to(path) for each in reached)]
    covered = set()
    for host, inside in mounts:
        source = Path(os.path.realpath(host))
        for path in real:
            if path != source and path.is_relative_to(source):
                covered.add(str(Path(inside) / path.relative_to(source)))
    return sorted(path for path in covered if not any(str(parent) in covered for parent in Path(path).parents))
