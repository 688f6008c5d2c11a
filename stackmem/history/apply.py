"""Applies a run's changes to the folder it was copied from: all of them, or none.

Rule 1: A file that matches neither the run's initial nor its final version is the user's work. The error names
    it, and nothing is applied.
Rule 2: Nothing is written through a link, outside the folder, or into ``.git``.
Rule 3: Every file is always either in its old or its new version, so a killed apply can be repeated.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from stackmem.errors import UsageError, WorkspaceError
from stackmem.workspace.clip import shown_name
from stackmem.workspace.tree import remove_tree

from .exchange import STAGE, FileExchange, PathState, look
from .history import History, PathChange
from .objects import REMOVED, Node, ObjectStore, alternates
from .patching import contents_after, sections
from .walk import path_bytes

_TRIES, _TRY_SECONDS = 20, 0.05  # for acquiring the lock
_NAMED = 10  # maximum number of files named in one message

# Files and folders that tools on the host execute or obey without being asked.
_FOLDERS = re.compile(
    r"\.git(hub|lab|ea|-?hooks)|\.(husky|circleci|buildkite|woodpecker|ci|vscode|idea|fleet|zed|devcontainer|cargo|mvn"
    r"|yarn|claude|cursor|codex|gemini|direnv)|bin|scripts?|hooks"
)
_FILES = re.compile(
    r"(gnu)?makefile|.*\.mk|\.?justfile|taskfile\.ya?ml|rakefile|vagrantfile|jenkinsfile|procfile|(docker|container)file.*"
    r"|.*\.dockerfile|(docker-)?compose.*\.ya?ml|tiltfile|earthfile"
    r"|conftest\.py|setup\.(py|cfg)|pyproject\.toml|tox\.ini|pytest\.(ini|toml)|noxfile\.py|tasks\.py|fabfile\.py|dodo\.py"
    r"|(site|user)customize\.py|manage\.py|.*\.pth|pip\.conf|requirements.*\.txt"
    r"|package\.json|\.(npm|yarn|pnpm)rc.*|\.pnpmfile\.cjs|binding\.gyp|(gulp|grunt)file\..*|.*\.config\.[cm]?[jt]s"
    r"|\.[a-z]+rc\.[cm]?js|deno\.jsonc?|bunfig\.toml"
    r"|build\.rs|cargo\.toml|.*\.gradle(\.kts)?|gradle.*\.properties|pom\.xml|build\.xml|cmakelists\.txt|.*\.cmake"
    r"|cmake.*presets\.json|configure(\.ac)?|meson\.build|sconstruct|workspace(\.bazel)?|build(\.bazel)?|.*\.bzl|\.bazelrc"
    r"|gemfile|.*\.gemspec|\.irbrc|\.pryrc|composer\.json|mix\.exs|package\.swift|.*\.nix|build\.zig|.*\.(cs|fs|vb)proj"
    r"|directory\.build\..*|.*\.(sh|bash|zsh|fish|bat|cmd|ps1)"
    r"|\.env.*|\.(bash|zsh|k?sh|c?sh|fish)(rc|_profile|env)|\.(bash_)?profile|\.z(login|profile)|\.(n|l)?vimrc|\.exrc"
    r"|\.nvim\.lua|\.dir-locals\.el|\.(gdb|lldb)init|\.tmux\.conf|\.tool-versions|mise\.toml|\.mise\.toml"
    r"|\.git(attributes|modules|config)|\.lfsconfig|\.pre-commit-config\.yaml|\.?lefthook.*\.ya?ml"
    r"|(\.|azure-|bitbucket-|cloudbuild).*(ci|pipelines|build|travis|drone|woodpecker)\.ya?ml|action\.ya?ml"
    r"|\.mcp\.json|.*\.code-workspace|stackmem\.toml"
)


def executed_by_host(changes: Iterable[PathChange]) -> list[str]:
    """Return the changed files that host tools may execute or obey: build files, hooks, CI, editor tasks, executables.

    The user should review these before using the files. Modules imported by the user's own program are not included.
    """
    return [change.path for change in changes if change.after and _is_run(change)]


def _is_run(change: PathChange) -> bool:
    parts = os.fsdecode(path_bytes(change.path)).lower().split("/")
    return (
        change.executable or any(_FOLDERS.fullmatch(part) for part in parts) or _FILES.fullmatch(parts[-1]) is not None
    )


class Patch(Struct, frozen=True):
    """A patch with the list of its changes.

    Attributes:
        text: As written by ``History.write_patch``.
        changes: As returned by ``History.changed`` for the same two trees.
    """

    text: bytes
    changes: Sequence[PathChange]


def apply_patch(patch: bytes, changes: list[PathChange], origin: Path) -> tuple[str, ...]:
    """Apply one patch to ``origin``, see ``apply_patches``."""
    return apply_patches([Patch(patch, changes)], origin)


def apply_patches(ways: Sequence[Patch], origin: Path) -> tuple[str, ...]:
    """Apply the changes to ``origin``, a folder of any kind. Changes that are already there are skipped.

    If several patches change a file, the first that fits is used. Returns the paths that were changed.
    """
    todo: dict[bytes, list[_Task]] = {}
    for way in ways:
        for task in _tasks(way):
            todo.setdefault(task.path, []).append(task)
    if not todo:
        return ()
    try:
        place = origin.resolve()
        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"the folder {origin} cannot be opened ({error.strerror}); its run still has the patch"
        ) from error
    try:
        with _staged(place) as stage:
            return _exchange(list(todo.values()), place, root, stage)
    except OSError as error:
        named = f", {shown_name(error.filename)}" if error.filename else ""
        raise WorkspaceError(
            f"{shown_name(str(place))} cannot be changed ({error.strerror}{named}) and was left unchanged;"
            " make it writable, and apply again"
        ) from error
    finally:
        os.close(root)


class _Task(Struct, frozen=True):
    path: bytes
    change: PathChange
    patch: bytes

    @property
    def before(self) -> Node | None:
        return Node(self.change.before_mode, self.change.before) if self.change.before else None

    @property
    def after(self) -> Node | None:
        return Node(self.change.after_mode, self.change.after) if self.change.after else None


def _tasks(way: Patch) -> list[_Task]:
    if not way.changes and not way.text:
        return []
    parts = sections(way.text)
    if len(parts) != len(way.changes):
        raise UsageError("changes.patch does not match the changes of this run; apply it manually with git apply")
    return [_Task(_checked(change.path), change, part) for change, part in zip(way.changes, parts, strict=True)]


def _checked(path: str) -> bytes:
    name = path_bytes(path)
    parts = name.split(b"/")
    if any(part in {b"", b".", b".."} or part.lower() == b".git" or b"\0" in part for part in parts):
        raise UsageError(f"the patch writes {path}, which is never allowed; do not apply it")
    if parts[0] == STAGE.encode():
        raise UsageError(f"the patch writes {path}, which is reserved; apply it manually with git apply")
    return name


@contextmanager
def _staged(origin: Path) -> Iterator[int]:
    """Create an empty folder in ``origin`` for one apply at a time, removing leftovers of a killed one."""
    stage = origin / STAGE
    lock = _lock(stage)
    if lock is None:
        raise UsageError(f"another apply is running in {origin}; wait until it has ended, and apply again")
    try:
        try:
            remove_tree(stage / "work", held=(lock,))
            os.mkdir("work", 0o700, dir_fd=lock)
            work = os.open("work", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=lock)
            try:
                yield work
            finally:
                os.close(work)
        finally:
            remove_tree(stage, held=(lock,))  # if we are killed, this continues and the next apply waits for it
    finally:
        os.close(lock)


def _lock(stage: Path) -> int | None:
    """Return the locked staging folder, creating it if necessary, or None if another process holds it.

    A process that a killed apply had started may still hold the lock; it ends by removing the folder, so wait for it.
    """
    for _ in range(_TRIES):
        stage.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = os.open(stage, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stage.stat().st_ino == os.fstat(lock).st_ino:
                    return lock
            except BlockingIOError:
                time.sleep(_TRY_SECONDS)
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)
    return None


def _exchange(todo: list[list[_Task]], origin: Path, root: int, stage: int) -> tuple[str, ...]:
    here = {ways[0].path: look(root, ways[0].path) for ways in todo}
    gone = {ways[0].path for ways in todo if ways[0].after is None}
    pending, changed = [], []
    for ways in todo:
        state = here[ways[0].path]
        if state.node == ways[0].after:
            continue
        fitting = next((task for task in ways if not _has_changed(state, task, gone)), None)
        if fitting is None:
            changed.append(ways[0].change.path)
        else:
            pending.append(fitting)
    if changed:
        names = ", ".join(changed[:_NAMED]) + (f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else "")
        raise UsageError(
            f"{names} changed in {shown_name(str(origin))} since the run started, so nothing is applied;"
            " undo that, or apply the run's changes.patch manually with git apply --3way"
        )
    if pending:
        before = {task.path: (task.before, here[task.path].content) for task in pending if task.before}
        after = {task.path: task.after for task in pending}
        patch = b"".join(task.patch for task in pending)
        contents = contents_after(patch, before, {path: node for path, node in after.items() if node})
        FileExchange(root, stage).run(here, after, contents)
    return tuple(task.change.path for task in pending)


def _has_changed(here: PathState, task: _Task, gone: set[bytes]) -> bool:
    """Return whether a path differs from the run's initial state. Obstacles that the same patch removes do not
    count.
    """
    if here.node != task.before:
        return True
    if here.obstacle == task.path:
        return not any(path.startswith(task.path + b"/") for path in gone)
    return bool(here.obstacle) and here.obstacle not in gone


def patch_across(first: History, before: str, second: History, after: str) -> Patch:
    """Return the patch from ``before``, a tree in ``first``, to ``after``, a tree in ``second``.

    Over an overlay, a tree contains only differences from the folder. If only one of the runs changed a file, the other
    tree has the folder's version.
    """
    if first.of_layer != second.of_layer:
        raise WorkspaceError("a tree of an overlay cannot be compared with a tree of a copy")
    first_files, second_files = first.base_files(), second.base_files()
    with TemporaryDirectory(prefix="stackmem-across-") as scratch:
        git_dir, place = Path(scratch) / "history.git", Path(scratch) / "patch"
        _read_also(git_dir, first.git_dir, second.git_dir)
        store = ObjectStore(git_dir)
        start = store.add_folders(_present(second_files | first_files | first.listed(before)).items())
        end = store.add_folders(_present(first_files | second_files | second.listed(after)).items())
        both = History(git_dir, git_dir)
        both.write_patch(start, end, place)
        return Patch(place.read_bytes(), both.changed(start, end))


def _present(files: dict[bytes, Node]) -> dict[bytes, Node]:
    return {path: node for path, node in files.items() if node.mode != REMOVED}


def _read_also(git_dir: Path, *others: Path) -> None:
    """Let a new store read the objects of other stores."""
    places = [place for other in others for place in (os.fspath(other / "objects"), *alternates(other))]
    (git_dir / "objects" / "info").mkdir(parents=True)
    lines = [os.fsencode(Path(place).resolve()) + b"\n" for place in dict.fromkeys(places)]
    (git_dir / "objects" / "info" / "alternates").write_bytes(b"".join(lines))
