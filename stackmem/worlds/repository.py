"""The commits of a repository that a person names, for the family ``history``."""

from __future__ import annotations

from pathlib import Path

from stackmem.errors import UsageError, WorkspaceError
from stackmem.history.origin import find_origin, work_tree_of

from .families.history import Commit

_MOST = 3_000  # commits, the newest
_LEAST = 10
_SECONDS = 60.0


def commits_of(folder: Path) -> tuple[Commit, ...]:
    """The commits of the repository that ``folder`` lies in, oldest first, merges left out.

    Raises:
        UsageError: It lies in none that may be read, or there are too few commits.
    """
    try:
        root = work_tree_of(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read ({error.strerror}); name a folder with --repository") from error
    if root is None:
        raise UsageError(f"{folder} lies in no git repository; name one with --repository")
    origin = find_origin(root)
    words = ("log", "--reverse", "--no-merges", "--no-renames", "--raw", "-z", "--abbrev=10", "--format=%x1e%s", "-n")
    try:
        told = origin.ask(*words, str(_MOST), "--end-of-options", origin.head or "HEAD", seconds=_SECONDS)
    except WorkspaceError as error:
        raise UsageError(f"git cannot list the commits of {root} ({error}); name another one") from error
    found = [one for text in told.decode("utf-8", "replace").split("\x1e") if (one := _commit(text)) is not None]
    if len(found) < _LEAST:
        raise UsageError(f"{root} has {len(found)} commits that change files; {_LEAST} are needed at least")
    return tuple(found)


def _commit(text: str) -> Commit | None:
    """A commit as git tells it: the subject, then of each file a head and its path."""
    subject, *rest = text.replace("\n", "\0").split("\0")
    rest = [piece for piece in rest if piece]
    files = []
    for head, path in zip(rest[::2], rest[1::2], strict=False):
        words = head.split()
        if head.startswith(":") and len(words) == 5:  # two modes, two blobs, what happened
            files.append((path, words[2][:10], words[3][:10]))
    return Commit(subject, tuple(files)) if files else None
