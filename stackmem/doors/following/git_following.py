"""Lets HEAD and the index of the agent's git be those of the user's folder, as of each request.

Rule 1: The agent's git changes only if the user's did. Commits of the agent stay on a branch that the agent learns of.
Rule 2: What cannot follow does not end the run. A line says why.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.errors import StackmemError, WorkspaceError
from stackmem.history.following.arriving import add_history, head_of, move_head
from stackmem.history.following.git_state import OPERATION_FILES, OPERATION_FOLDERS, GitState, read_state
from stackmem.history.inner import InnerRepository, make_addition, make_repository
from stackmem.history.late_repository import LateRepository
from stackmem.history.layer import LENT
from stackmem.history.origin import Origin
from stackmem.run.companion.git_inside import GIT, RepositoryPlaces, pack_cache
from stackmem.run.stored_request import read_request, write_request
from stackmem.workspace.clip import shown_name
from stackmem.workspace.tree import remove_tree

_FOLLOWING = "repository.follow"
"""Directory next to the workspace in which the additions are created."""
_MAX_LISTED = 5
_OPERATIONS = {
    "MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}  # fmt: skip


class GitFollower:
    """Brings the state of the user's repository to the agent's."""

    def __init__(self, places: RepositoryPlaces, late: LateRepository | None) -> None:
        self._places, self._late = places, late
        self._key: tuple[object, ...] = ()

    def follow(self, origin: Origin, before: tuple[str, str] | None) -> list[str]:
        """Follow the user's repository. Returns a line for each thing that the agent should know.

        ``before`` is the user's branch and commit at the last request; None if there was none.
        """
        key = _key(origin)
        if not origin.head or key == self._key:
            return []
        self._key = key
        try:
            return self._follow(origin, before)
        except (StackmemError, OSError) as error:
            return [f"the git in your workspace could not follow the user's: {error}"]

    def _follow(self, origin: Origin, before: tuple[str, str] | None) -> list[str]:
        inner = read_request(self._places.run_dir).git
        if inner is None:
            return []
        state = read_state(origin)
        has_moved = (before is not None and before != (origin.branch, origin.head)) or inner.head != origin.head
        if not has_moved and state.fingerprint == inner.state:
            return []
        if self._late is not None:
            self._late.wait_for_all()
            inner = read_request(self._places.run_dir).git or inner
        root = self._places.view()
        if not has_moved and head_of(root)[1] != inner.head:
            return [f"{_described(state)}; your git is as before, because you have made commits"]
        branch = self._bring(origin, inner)
        lines = [f"your own commits are on the branch {branch}, because git in your workspace follows the user's"]
        return [_described(state)] * (state.fingerprint != inner.state) + lines * bool(branch)

    def _bring(self, origin: Origin, inner: InnerRepository) -> str:
        """Bring the commits, HEAD, the index and an interrupted operation.

        Returns the branch that keeps the agent's commits, or an empty string.
        """
        places, building = self._places, self._places.work.parent / _FOLLOWING
        remove_tree(building)
        try:
            git_dir = building / GIT
            boundary: bytes | None = None
            try:
                if inner.shortened:
                    raise WorkspaceError("the older commits are not there")
                repository = replace(make_addition(origin, git_dir, places.secrets, inner.head), commits=inner.commits)
            except WorkspaceError:  # or the commit that the run began with is gone
                remove_tree(building)
                repository = make_repository(origin, git_dir, places.secrets, pack_cache(links=places.shared))
                boundary = b""
            add_history(git_dir, places.view(), places.work.parent / LENT if places.shared else None, boundary)
            heads = {inner.head, origin.head}
            branch = move_head(git_dir, places.view(), origin.branch, origin.head, heads)
            write_request(replace(read_request(places.run_dir), git=repository), places.run_dir)
        finally:
            remove_tree(building)
        return branch


def _key(origin: Origin) -> tuple[object, ...]:
    """Return what changes with the state of a repository."""
    parts: list[object] = [origin.branch, origin.head]
    for name in ("index", *OPERATION_FILES, *OPERATION_FOLDERS):
        try:
            status = os.lstat(Path(origin.git_dir, name))
        except OSError:
            continue
        parts.append((name, status.st_mtime_ns, status.st_size))
    return tuple(parts)


def _described(state: GitState) -> str:
    """Say in a line what is staged or interrupted in the user's repository."""
    operation = next((word for name, word in _OPERATIONS.items() if _is_in(state, name)), "")
    paths = list(dict.fromkeys([*(each.path for each in state.staged), *state.added]))
    names = ", ".join(map(shown_name, paths[:_MAX_LISTED]))
    more = f" and {len(paths) - _MAX_LISTED:,} more files" if len(paths) > _MAX_LISTED else ""
    if operation:
        return f"the user is in the middle of a {operation}" + f", with {names}{more} in the index" * bool(paths)
    if not paths:
        return "the user has nothing staged or interrupted in git any more"
    return f"the user has staged {names}{more}"


def _is_in(state: GitState, name: str) -> bool:
    return any(path == name or path.startswith(f"{name}/") for path in state.files)
