"""The repository that a folder lies in, as far as a run may read it: its own objects, and what its HEAD names.

Rule 1: a repository may be hostile. A ``.git`` that leads elsewhere (a link, a file that names a repository which does
    not name the folder back, borrowed objects) could bring another repository's history to a model: it is not read.
Rule 2: it is never written, and no program that it names is run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError, WorkspaceError
from stackmem.foreign.files import read_start
from stackmem.workspace.clip import shown_name

from .git import HER_SECONDS, git, special_file_below, store_environment

_NAME = (
    r"(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)|[./]$))"
    r"[^.\x00-\x20\x7f~^:?*\[\\][^\x00-\x20\x7f~^:?*\[\\]*"
)
_BRANCH, _TAG = re.compile(f"refs/heads/{_NAME}"), re.compile(f"refs/tags/{_NAME}")
_MOST_TAGS = 5_000
_SMALL_BYTES = 4096  # a name, or a path
_LISTS_BYTES = 16 * 1024 * 1024  # of the commits that a shallow clone ends with
_WAY_OUT = "so its history stays outside; clone it anew to have it in the run"


class Origin(Struct, frozen=True):
    """A repository that may be read."""

    root: Path  # the top of its work tree
    git_dir: Path  # what belongs to this work tree: HEAD, the index
    common: Path  # what all its work trees share: objects, refs
    branch: str  # as ``refs/heads/NAME``; empty where HEAD is detached
    head: str  # the commit of HEAD; empty where there is none yet

    @property
    def environment(self) -> dict[str, str]:
        """For questions about it: nobody's configuration but its own, and no grafts."""
        return store_environment(self.git_dir) | {"GIT_GRAFT_FILE": os.devnull}

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = HER_SECONDS) -> bytes:
        return git(*arguments, cwd=self.git_dir, environment=self.environment, stdin=stdin, seconds=seconds)

    def tags(self, commits: Collection[str]) -> dict[str, str]:
        """The tags that name one of these commits, by their whole names; an annotated one by the commit alone."""
        wanted = "--format=%(objectname) %(*objectname) %(refname)"
        listed = self.ask("for-each-ref", f"--count={_MOST_TAGS}", "--sort=-creatordate", wanted, "refs/tags")
        found = {}
        for line in listed.decode("utf-8", "surrogateescape").splitlines():
            named, peeled, name = line.split(" ", 2)
            if (commit := peeled or named) in commits and _TAG.fullmatch(name):
                found[name] = commit
        return found

    def shallow(self) -> set[str]:
        """The commits whose parents it does not have."""
        return set(_text(self.common / "shallow", _LISTS_BYTES).split())


def work_tree_of(folder: Path) -> Path | None:
    """The top of the work tree that a folder lies in; None where it lies in none."""
    place = folder.resolve()
    device = place.stat().st_dev
    for root in (place, *place.parents):
        if root.stat().st_dev != device:
            return None  # as git, which stops there too
        if os.path.lexists(root / ".git"):
            return root
    return None


def find_origin(root: Path) -> Origin:
    """The repository of the work tree whose top is ``root``."""
    git_dir = _git_dir(root)
    common = _common(git_dir)
    named = shown_name(str(root))
    for place in dict.fromkeys((git_dir, common)):
        if link := _odd_entry(place):
            raise UsageError(
                f"the repository {named} contains a link or a special file ({shown_name(link)}), {_WAY_OUT}"
            )
    if _text(common / "objects" / "info" / "alternates").strip():
        raise UsageError(
            f"the repository {named} borrows from another one, so its history stays outside; `git repack -a -d` "
            "and removing .git/objects/info/alternates makes it whole"
        )
    line = _text(git_dir / "HEAD").rstrip("\n")
    branch = line.removeprefix("ref: ") if line.startswith("ref: ") else ""
    if branch and not _BRANCH.fullmatch(branch):
        raise UsageError(f"HEAD of the repository {named} names no branch, {_WAY_OUT}")
    origin = Origin(root, git_dir, common, branch, "")
    try:
        names = origin.ask("for-each-ref", "--count=1", "--format=%(objectname)", branch) if branch else b"HEAD"
        head = origin.ask("rev-parse", "--verify", "--end-of-options", "HEAD^{commit}") if names.strip() else b""
    except WorkspaceError as error:
        raise UsageError(f"git cannot read the repository {named} ({error}), {_WAY_OUT}") from error
    return Origin(root, git_dir, common, branch, head.decode().strip())


def _git_dir(root: Path) -> Path:
    """The folder that belongs to this work tree."""
    entry = root / ".git"
    named = shown_name(str(root))
    mode = entry.lstat().st_mode
    if stat.S_ISDIR(mode):
        return entry
    line = _text(entry)
    if not stat.S_ISREG(mode) or not line.startswith("gitdir: "):
        raise UsageError(f"the .git of {named} is no repository, {_WAY_OUT}")
    place = Path(os.path.normpath(root / line.removeprefix("gitdir: ").rstrip("\n")))
    back = _text(place / "gitdir").rstrip("\n")  # of ``git worktree``
    if back and Path(os.path.normpath(place / back)) == entry:
        return place
    if place.is_dir() and _work_tree_named_in(place) == root:  # of a submodule
        return place
    raise UsageError(f"the .git of {named} leads to a repository that does not name this folder, {_WAY_OUT}")


def _work_tree_named_in(git_dir: Path) -> Path | None:
    try:
        environment = store_environment(git_dir)
        named = git("config", "--file", str(git_dir / "config"), "core.worktree", cwd=git_dir, environment=environment)
    except WorkspaceError:
        return None
    return Path(os.path.normpath(git_dir / os.fsdecode(named.rstrip(b"\n"))))


def _common(git_dir: Path) -> Path:
    """The folder that all work trees share, as git finds it; another work tree's folder lies in it by name."""
    line = _text(git_dir / "commondir").rstrip("\n")
    if not line:
        return git_dir
    common = Path(os.path.normpath(git_dir / line))
    if git_dir.parent.name != "worktrees" or git_dir.parent.parent != common:
        raise UsageError(f"{shown_name(str(git_dir))} takes its objects from another place, {_WAY_OUT}")
    return common


def _odd_entry(git_dir: Path) -> str:
    """A link by which git would read another place, or a FIFO that it would wait for; empty if there is none."""
    for name in ("HEAD", "config", "commondir", "index", "packed-refs", "shallow", "refs", "objects"):
        if (git_dir / name).is_symlink():
            return name
    try:
        return special_file_below(git_dir, ("refs", "objects"), links=True)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"


def _text(path: Path, most_bytes: int = _SMALL_BYTES) -> str:
    """A small regular file's text; empty where there is none."""
    try:
        return os.fsdecode(read_start(path, most_bytes, follow=False))
    except OSError:
        return ""
