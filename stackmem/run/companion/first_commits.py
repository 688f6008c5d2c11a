"""The first commit of a repository, which tells it from another repository at the same path."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular
from stackmem.foreign.private import write_json

if TYPE_CHECKING:
    from stackmem.history.origin import Origin

AT_COMMIT = "at "
"""Begins the name for a HEAD whose first commit git did not find in time."""


class FirstCommit(Struct, frozen=True, forbid_unknown_fields=True):
    """The first commit in the history of a HEAD. It never changes, because a commit id fixes its history."""

    head: str
    first: str


def first_commit(folder: Path, path: Path) -> str:
    """Return the oldest root commit of the repository that contains a folder.

    Empty without a repository or commit, and in a shallow clone, which lacks its first commit. If git is too slow: a
    name for HEAD that a first commit never has, so that another repository does not get this heap.
    """
    from stackmem.history.origin import find_origin, work_tree_of  # imported here, because most commands do not need it

    try:
        root = work_tree_of(folder)
        origin = None if root is None else find_origin(root)
        if origin is None or not origin.head or origin.shallow():
            return ""
    except (UsageError, WorkspaceError, OSError):
        return ""  # not a repository that may be read
    before = _known_first(path)
    if before is not None and before.head == origin.head:
        return before.first
    try:
        if before is not None and not _roots_since(origin, before.head):
            first = before.first
        else:
            first = origin.ask("rev-list", "--max-parents=0", origin.head).split()[-1].decode()
    except WorkspaceError as error:
        sys.stderr.write(
            f"stackmem: git cannot find the first commit of {folder} ({error}), so its heap is kept for the commit "
            f"{origin.head[:12]} only; to keep one heap, use --heap FILE\n"
        )
        return f"{AT_COMMIT}{origin.head}"
    with suppress(OSError):  # only a cache; without it, the next call is slower
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(path, FirstCommit(origin.head, first))
    return first


def _known_first(path: Path) -> FirstCommit | None:
    try:
        return decode_json(read_regular(path), FirstCommit)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _roots_since(origin: Origin, head: str) -> bool:
    """Return whether the history of HEAD has a root commit that the history of an earlier HEAD lacks."""
    try:
        return bool(origin.ask("rev-list", "--max-parents=0", "--max-count=1", origin.head, f"^{head}").strip())
    except WorkspaceError:
        return True  # the earlier HEAD is gone or belongs to another repository
