"""The git repository of a user's folder, as far as a run may read it: its own objects, reachable from HEAD.

Rule 1: A repository may be hostile. A ``.git`` that leads elsewhere (a link, a file naming a repository that does not
    name the folder in return, borrowed objects) could expose another repository's history to a model, so it is not
    read.
Rule 2: The repository is never written, and programs that it names are not run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.foreign.files import read_start
from stackmem.workspace.clip import shown_name

from .git import USER_GIT_SECONDS, git, special_file_below, store_environment
from .selection import never_copied

_NAME = (
    r"(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)|[./]$))"
    r"[^.\x00-\x20\x7f~^:?*\[\\][^\x00-\x20\x7f~^:?*\[\\]*"
)
_BRANCH, _TAG = re.compile(f"refs/heads/{_NAME}"), re.compile(f"refs/tags/{_NAME}")
_SUBMODULE, _REGULAR = b"160000", (b"100644", b"100755")  # modes in the index
_POINTER, _MAX_POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024
_USES_LFS = re.compile(rb"^[^#\n]*\bfilter=lfs\b", re.M)
_MAX_ATTRIBUTES, _MAX_POINTERS = 100, 20_000  # files that are read
_MAX_NAMES = 3
_MAX_TAGS = 5_000
_SMALL_BYTES = 4096  # for a name or path
_LISTS_BYTES = 16 * 1024 * 1024  # for the list of a shallow clone's boundary commits
_WAY_OUT = "so the run does not get its history; clone it again to include it"


class Origin(Struct, frozen=True):
    """A repository that may be read."""

    root: Path  # root of its work tree
    git_dir: Path  # data of this work tree: HEAD and index
    common: Path  # data shared by all work trees: objects and refs
    branch: str  # as ``refs/heads/NAME``; empty if HEAD is detached
    head: str  # the commit of HEAD; empty if there is none yet

    @property
    def environment(self) -> dict[str, str]:
        """Environment for queries: only the repository's own configuration, and no grafts."""
        return store_environment(self.git_dir) | {"GIT_GRAFT_FILE": os.devnull}

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = USER_GIT_SECONDS) -> bytes:
        return git(*arguments, cwd=self.git_dir, environment=self.environment, stdin=stdin, seconds=seconds)

    def ask_in_work_tree(self, *arguments: str) -> bytes:
        """Like ``ask``, for a query that needs the work tree."""
        environment = self.environment | {"GIT_WORK_TREE": os.fspath(self.root)}
        return git(*arguments, cwd=self.root, environment=environment, seconds=USER_GIT_SECONDS)

    def tags(self, commits: Collection[str]) -> dict[str, str]:
        """Return the tags of these commits by full name. Annotated tags map directly to the commit."""
        fields = "--format=%(objectname) %(*objectname) %(refname)"
        listed = self.ask("for-each-ref", f"--count={_MAX_TAGS}", "--sort=-creatordate", fields, "refs/tags")
        tags = {}
        for line in listed.decode("utf-8", "surrogateescape").splitlines():
            object_id, peeled, name = line.split(" ", 2)
            if (commit := peeled or object_id) in commits and _TAG.fullmatch(name):
                tags[name] = commit
        return tags

    def unfinished(self) -> tuple[str, ...]:
        """Return what the repository of a run lacks: a bisection, hidden staged files, files that were not fetched."""
        notes = []
        if os.path.lexists(self.git_dir / "BISECT_LOG"):
            notes.append("the folder is in the middle of a bisection; git in the run does not know of it")
        if hidden := self._hidden_staged():
            notes.append(f"staged files that the run cannot see: {_some(hidden)}; its index has them as in HEAD")
        return (*notes, *self._not_fetched())

    def _not_fetched(self) -> list[str]:
        """Return notes on empty submodules and on files whose content is only in LFS."""
        try:
            listed = self.ask_in_work_tree("ls-files", "--stage", "-z").split(b"\0")[:-1]
        except WorkspaceError:  # a damaged index; the run reports it if it matters
            return []
        entries = [(line[:6], line.partition(b"\t")[2]) for line in listed]
        empty = [path for mode, path in entries if mode == _SUBMODULE and _is_empty(self.root, path)]
        pointers = self._pointers([path for mode, path in entries if mode in _REGULAR])
        notes = []
        if empty:
            notes.append(
                f"submodules without files: {_some(empty)}; if the task needs them, run "
                "`git submodule update --init` in your folder first"
            )
        if pointers:
            notes.append(
                f"LFS pointers instead of the files: {_some(pointers)}; if the task needs their content, run "
                "`git lfs pull` in your folder first"
            )
        return notes

    def _pointers(self, paths: list[bytes]) -> list[bytes]:
        attributes = [path for path in paths if path.rpartition(b"/")[2] == b".gitattributes"][:_MAX_ATTRIBUTES]
        if not any(_USES_LFS.search(_start(self.root, path, _SMALL_BYTES * 16)) for path in attributes):
            return []
        return [path for path in paths[:_MAX_POINTERS] if _is_pointer(self.root, path)]

    def _hidden_staged(self) -> list[bytes]:
        if not self.head:
            return []
        try:
            names = self.ask("diff-index", "--cached", "--name-only", "-z", self.head).split(b"\0")[:-1]
        except WorkspaceError:  # objects that a partial clone lacks, for example
            return []
        return [path for path in names if any(map(never_copied, path.split(b"/")))]

    def shallow(self) -> set[str]:
        """Return the commits whose parents are missing."""
        return set(_text(self.common / "shallow", _LISTS_BYTES).split())


def _is_empty(root: Path, path: bytes) -> bool:
    try:
        with os.scandir(root / os.fsdecode(path)) as inside:
            return next(inside, None) is None
    except OSError:  # it is missing or unreadable
        return True


def _is_pointer(root: Path, path: bytes) -> bool:
    try:
        status = (root / os.fsdecode(path)).lstat()
    except OSError:
        return False
    small = stat.S_ISREG(status.st_mode) and len(_POINTER) < status.st_size <= _MAX_POINTER_BYTES
    return small and _start(root, path, len(_POINTER)) == _POINTER


def _start(root: Path, path: bytes, most_bytes: int) -> bytes:
    try:
        return read_start(root / os.fsdecode(path), most_bytes, follow=False)
    except OSError:
        return b""


def _some(paths: list[bytes]) -> str:
    more = f" and {len(paths) - _MAX_NAMES:,} more" if len(paths) > _MAX_NAMES else ""
    return ", ".join(map(shown_name, paths[:_MAX_NAMES])) + more


def work_tree_of(folder: Path) -> Path | None:
    """Return the root of the work tree that contains a folder, or None."""
    path = folder.resolve()
    device = path.stat().st_dev
    for root in (path, *path.parents):
        if root.stat().st_dev != device:
            return None  # git also stops at a file system boundary
        if os.path.lexists(root / ".git"):
            return root
    return None


def find_origin(root: Path) -> Origin:
    """Return the repository of the work tree at ``root``.

    Raise UsageError if the repository may not be read; the message gives the reason.
    """
    git_dir = _git_dir(root)
    common = _common(git_dir)
    name = shown_name(str(root))
    for path in dict.fromkeys((git_dir, common)):
        if link := _odd_entry(path):
            raise UsageError(
                f"the repository {name} contains a link or a special file ({shown_name(link)}), {_WAY_OUT}"
            )
    if _text(common / "objects" / "info" / "alternates").strip():
        raise UsageError(
            f"the repository {name} borrows from another one, so the run does not get its history; "
            "to fix that, run `git repack -a -d` and remove .git/objects/info/alternates"
        )
    line = _text(git_dir / "HEAD").rstrip("\n")
    branch = line.removeprefix("ref: ") if line.startswith("ref: ") else ""
    if branch and not _BRANCH.fullmatch(branch):
        raise UsageError(f"HEAD of the repository {name} does not name a branch, {_WAY_OUT}")
    origin = Origin(root, git_dir, common, branch, "")
    try:
        names = origin.ask("for-each-ref", "--count=1", "--format=%(objectname)", branch) if branch else b"HEAD"
        head = origin.ask("rev-parse", "--verify", "--end-of-options", "HEAD^{commit}") if names.strip() else b""
    except WorkspaceError as error:
        raise UsageError(f"git cannot read the repository {name} ({error}), {_WAY_OUT}") from error
    return Origin(root, git_dir, common, branch, head.decode().strip())


def _git_dir(root: Path) -> Path:
    """Return the git directory of this work tree.

    Raise UsageError if ``.git`` leads to a repository that does not list this folder as a work tree.
    """
    entry = root / ".git"
    name = shown_name(str(root))
    mode = entry.lstat().st_mode
    if stat.S_ISDIR(mode):
        return entry
    line = _text(entry)
    if not stat.S_ISREG(mode) or not line.startswith("gitdir: "):
        raise UsageError(f"the .git of {name} is not a repository, {_WAY_OUT}")
    path = Path(os.path.normpath(root / line.removeprefix("gitdir: ").rstrip("\n")))
    back = _text(path / "gitdir").rstrip("\n")  # from ``git worktree``
    if back and Path(os.path.normpath(path / back)) == entry:
        return path
    if path.is_dir() and _work_tree_named_in(path) == root:  # a submodule
        return path
    raise UsageError(f"the .git of {name} leads to a repository that does not name this folder, {_WAY_OUT}")


def _work_tree_named_in(git_dir: Path) -> Path | None:
    try:
        environment = store_environment(git_dir)
        output = git("config", "--file", str(git_dir / "config"), "core.worktree", cwd=git_dir, environment=environment)
    except WorkspaceError:
        return None
    return Path(os.path.normpath(git_dir / os.fsdecode(output.rstrip(b"\n"))))


def _common(git_dir: Path) -> Path:
    """Return the directory shared by all work trees, which must contain this work tree's directory.

    Raise UsageError if the directory is elsewhere.
    """
    line = _text(git_dir / "commondir").rstrip("\n")
    if not line:
        return git_dir
    common = Path(os.path.normpath(git_dir / line))
    if git_dir.parent.name != "worktrees" or git_dir.parent.parent != common:
        raise UsageError(f"{shown_name(str(git_dir))} takes its objects from another place, {_WAY_OUT}")
    return common


def _odd_entry(git_dir: Path) -> str:
    """Return a link that would lead git elsewhere, or a FIFO that it would block on, or an empty string."""
    for name in ("HEAD", "config", "commondir", "index", "packed-refs", "shallow", "refs", "objects"):
        if (git_dir / name).is_symlink():
            return name
    try:
        return special_file_below(git_dir, ("refs", "objects"), links=True)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"


def _text(path: Path, most_bytes: int = _SMALL_BYTES) -> str:
    """Return the text of a small regular file, or an empty string."""
    try:
        return os.fsdecode(read_start(path, most_bytes, follow=False))
    except OSError:
        return ""
