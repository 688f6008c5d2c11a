"""Reads what is unfinished in the user's repository: staged changes, and an interrupted merge, rebase or cherry-pick.

Rule 1: The repository may be hostile: files are read within limits, and links are not followed.
Rule 2: Only commits that an interrupted operation names in its own fields are included, not every word of its files.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.files import read_start
from stackmem.history.origin import Origin

OPERATION_FILES = (
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "ORIG_HEAD",
)
OPERATION_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_SIGNS = {*OPERATION_FILES[:3], *OPERATION_FOLDERS}
"""Their presence means that an operation waits for the user."""
_FIELDS = {
    *OPERATION_FILES[:4], "onto", "orig-head", "stopped-sha", "autostash", "head", "original-commit", "abort-safety",
    "rewritten-list",
}  # fmt: skip
_TODO = re.compile(
    r"^(?:p|pick|r|reword|e|edit|s|squash|f|fixup|d|drop|revert)(?: -[cC])? ([0-9a-f]{7,64})\b", re.MULTILINE
)
_COMMIT = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
_REBASED = re.compile(r"refs/heads/[^\x00-\x20\x7f~^:?*\[\\]+")
_MAX_FILE_BYTES, _MAX_FILES, _MAX_COMMITS = 1 << 20, 500, 500
DELETED = "0"
"""Mode of a path that was removed."""


class Staged(Struct, frozen=True):
    """An entry of the index that HEAD does not have like this."""

    mode: str  # the mode as git prints it; ``0`` if the path was removed
    name: str  # the blob
    stage: int  # 0, or 1 to 3 in a conflict
    path: bytes


class GitState(Struct, frozen=True):
    """The state of a repository in addition to its commits."""

    files: dict[str, bytes] = {}  # the files of an interrupted operation, by their path in the git directory
    commits: tuple[str, ...] = ()  # the commits that it refers to
    rebased: dict[str, str] = {}  # the branch that is being rebased with its commit, by its full name
    staged: tuple[Staged, ...] = ()  # the index, as far as it differs from HEAD
    added: tuple[bytes, ...] = ()  # paths with intent to add

    @property
    def fingerprint(self) -> str:
        """Digest of the state; empty if there is nothing."""
        if self == GitState():
            return ""
        return hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(self))).hexdigest()


def read_state(origin: Origin) -> GitState:
    """Read the state of the user's repository, without the parts that cannot be read."""
    files = _operation_files(origin.git_dir)
    names = sorted({name for path, content in files.items() for name in _names_in(path, content)})
    commits = _commits_among(origin, names[:_MAX_COMMITS])
    try:
        staged, added = _staged(origin) if origin.head else ((), ())
    except WorkspaceError:  # a damaged index, or objects that a partial clone lacks
        staged, added = (), ()
    return GitState(files, commits, _rebased(files, commits), staged, added)


def _operation_files(git_dir: Path) -> dict[str, bytes]:
    if not any(os.path.lexists(git_dir / name) for name in _SIGNS):
        return {}
    names = list(OPERATION_FILES)
    for folder in OPERATION_FOLDERS:
        if not (git_dir / folder).is_symlink() and (git_dir / folder).is_dir():
            names += sorted(f"{folder}/{name}" for name in os.listdir(git_dir / folder))
    contents = {}
    for name in names[:_MAX_FILES]:
        try:
            content = read_start(git_dir / name, _MAX_FILE_BYTES + 1, follow=False)
        except OSError:
            continue
        if len(content) <= _MAX_FILE_BYTES:
            contents[name] = content
    return contents


def _names_in(path: str, content: bytes) -> set[str]:
    """Return the commits that a file names, some of them abbreviated."""
    text = content.decode("utf-8", "replace")
    last = path.rpartition("/")[2]
    if last in ("git-rebase-todo", "todo", "done", "git-rebase-todo.backup"):
        return set(_TODO.findall(text))
    return set(_COMMIT.findall(text)) if last in _FIELDS else set()


def _commits_among(origin: Origin, names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    question = "".join(f"{name}\n" for name in names).encode()
    try:
        lines = origin.ask("cat-file", "--batch-check", stdin=question).decode("utf-8", "replace").splitlines()
    except WorkspaceError:
        return ()
    return tuple(sorted({line.split()[0] for line in lines if line.split()[1:2] == ["commit"]}))


def _rebased(files: dict[str, bytes], commits: tuple[str, ...]) -> dict[str, str]:
    for folder in OPERATION_FOLDERS[:2]:
        branch = files.get(f"{folder}/head-name", b"").decode("utf-8", "replace").strip()
        commit = files.get(f"{folder}/orig-head", b"").decode("utf-8", "replace").strip()
        if _REBASED.fullmatch(branch) and ".." not in branch and commit in commits:
            return {branch: commit}
    return {}


def _staged(origin: Origin) -> tuple[tuple[Staged, ...], tuple[bytes, ...]]:
    """Return the entries of the index that differ from HEAD, and the paths that it only announces."""
    entries = [
        Staged(DELETED if status == "D" else mode, name, 0, path)
        for mode, name, status, path in _differing(origin, "--ita-invisible-in-index")
        if status != "U"
    ]
    paths = {each.path for each in entries}
    added = (path for *_, status, path in _differing(origin, "--ita-visible-in-index") if status == "A")
    for line in origin.ask("ls-files", "--unmerged", "-z").split(b"\0")[:-1]:
        described, _, path = line.partition(b"\t")
        mode, name, stage = described.decode().split()
        entries.append(Staged(mode, name, int(stage), path))
    return tuple(entries), tuple(sorted(set(added) - paths))


def _differing(origin: Origin, option: str) -> list[tuple[str, str, str, bytes]]:
    arguments = ("diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", option, "-z", origin.head)
    fields = origin.ask(*arguments).split(b"\0")[:-1]
    lines = (line.decode().split() for line in fields[::2])
    return [(mode, name, status, path) for (_, mode, _, name, status), path in zip(lines, fields[1::2], strict=True)]
