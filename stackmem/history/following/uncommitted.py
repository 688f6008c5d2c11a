"""Finds the user's uncommitted work that applying a run would delete or revert, as after the agent's ``git reset``.

Rule 1: A file is uncommitted if it is not in HEAD of the user's repository with this content. Without a repository,
    no file is uncommitted.
Rule 2: Work is lost if the file is deleted or gets the content that it has in HEAD or in the index. An edit of an
    uncommitted file is not a loss.
Rule 3: Only files of which the user had an uncommitted version count, not what the agent made and the user applied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.history.exchange import PathState
from stackmem.history.git import USER_GIT_SECONDS, git, user_git_environment
from stackmem.history.objects import Node, object_id


class UncommittedWork:
    """Decides for each file whether applying would lose the user's work. It asks git on first use."""

    def __init__(self, folder: Path, users: Mapping[bytes, Collection[str]]) -> None:
        self._folder = folder
        self._users = users  # the blob ids of the user's own versions, by path
        self._in_git: tuple[dict[bytes, Collection[str]], dict[bytes, Collection[str]]] | None = None

    def would_lose(self, path: bytes, here: PathState, after: Node | None) -> bool:
        """Return whether replacing a file by ``after``, or deleting it if None, loses uncommitted work."""
        if here.node is None or not self._users.get(path):
            return False
        if self._in_git is None:
            self._in_git = self._ask()
        committed, staged = self._in_git
        if not committed and not staged:
            return False
        ids = {here.node.id, object_id("blob", here.content.replace(b"\r\n", b"\n"))}
        if ids & set(committed.get(path, ())) or set(committed.get(path, ())) >= set(self._users[path]):
            return False
        return after is None or after.id in {*committed.get(path, ()), *staged.get(path, ())} - ids

    def _ask(self) -> tuple[dict[bytes, Collection[str]], dict[bytes, Collection[str]]]:
        """Return the blob ids in HEAD and in the index by path; both are empty without a repository."""
        return (
            self._listed(2, "ls-tree", "-r", "-z", "HEAD"),
            self._listed(1, "ls-files", "-s", "-z"),
        )

    def _listed(self, field: int, *arguments: str) -> dict[bytes, Collection[str]]:
        environment = user_git_environment()
        try:
            listed = git(*arguments, cwd=self._folder, environment=environment, seconds=USER_GIT_SECONDS)
        except (WorkspaceError, UsageError):  # no repository, or no commit yet
            return {}
        by_path: dict[bytes, Collection[str]] = {}
        for line in listed.split(b"\0")[:-1]:
            described, _, path = line.partition(b"\t")
            by_path[path] = (*by_path.get(path, ()), described.split()[field].decode())
        return by_path
