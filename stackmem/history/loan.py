"""What the repository of a folder keeps anyway, and the history of a run therefore need not: the files and folders of HEAD.

A history that borrows takes no room for what the run did not change. Where the repository forgets a commit for good, the
files that a run had from it can no longer be looked at; its trace, its patch and what it changed stay whole.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from stackmem.errors import WorkspaceError

from .git import HER_SECONDS, git, her_environment

_ID = re.compile(rb"[0-9a-f]{40}")


class Loan(Struct, frozen=True):
    """Attributes:
    objects: The folder that holds them.
    ids: Of the objects that are there.
    """

    objects: Path
    ids: frozenset[str]


def loan_of(folder: Path) -> Loan | None:
    """What a history of the folder may borrow; None where there is nothing, or it may come from elsewhere at each look."""
    try:
        if _fetches(folder):
            return None
        place, root = _git(folder, "rev-parse", "--git-path", "objects", "HEAD^{tree}").splitlines()
        listed = _git(folder, "ls-tree", "-r", "-t", "-z", "--full-tree", "HEAD").split(b"\0")[:-1]
        ids = {root, *(line.partition(b"\t")[0].rpartition(b" ")[2] for line in listed)}
        there = present(folder, her_environment(), {each for each in ids if _ID.fullmatch(each)})
        return Loan((folder / os.fsdecode(place)).resolve(), there)
    except (WorkspaceError, ValueError):  # no repository, one without a commit, or a line feed in its path
        return None


def present(folder: Path, environment: dict[str, str], ids: set[bytes]) -> frozenset[str]:
    """Those of the objects that git finds from a folder.

    Raises:
        WorkspaceError: git fails.
    """
    asked = b"".join(each + b"\n" for each in ids)
    answer = git("cat-file", "--batch-check", "--buffer", cwd=folder, environment=environment, stdin=asked)
    return frozenset(line[:40].decode() for line in answer.splitlines() if not line.endswith(b" missing"))


def _fetches(folder: Path) -> bool:
    """Whether git would ask a server for objects that it lacks (a partial clone)."""
    try:
        return bool(_git(folder, "config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$"))
    except WorkspaceError:  # exit 1: no such setting
        return False


def _git(folder: Path, *arguments: str) -> bytes:
    return git(*arguments, cwd=folder, environment=her_environment(), seconds=HER_SECONDS)
