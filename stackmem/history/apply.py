"""Applies a run's changes to the folder it was copied from.

Rule 1: A file that the user changed as well is merged. If both changed the same lines, the user's version stays and is
    named; the other files are applied.
Rule 2: Nothing is written through a link, outside the folder, or into ``.git``.
Rule 3: Every file is always either in its old or its new version, so a killed apply can be repeated.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.workspace.clip import shown_name
from stackmem.workspace.tree import remove_tree

from .exchange import STAGE, FileExchange, PathState, look
from .following.merging import has_conflict, merge_modes, merge_texts
from .history import History, PathChange
from .objects import REMOVED, Node, ObjectStore, alternates, object_id
from .patching import contents_after, sections
from .walk import path_bytes

_TRIES, _TRY_SECONDS = 20, 0.05  # for acquiring the lock
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
    """A patch with the list of its changes."""

    text: bytes  # as written by ``History.write_patch``
    changes: Sequence[PathChange]  # as returned by ``History.changed`` for the same two trees


class Outcome(Struct, frozen=True):
    """What an apply did. Paths are spelled by ``shown_name``."""

    changed: tuple[str, ...] = ()  # files that were written or deleted
    merged: tuple[str, ...] = ()  # those of them that also contain changes of the user
    refused: tuple[str, ...] = ()  # files that stay as they are, because the user changed the same lines
    # files that stay as they are, because the run's version contains marks of an unresolved conflict
    conflicts: tuple[str, ...] = ()
    # files that stay as they are, because the user's uncommitted work in them would be lost
    spared: tuple[str, ...] = ()


def _no_content(_: str) -> bytes | None:
    return None


def _loses_nothing(_path: bytes, _here: PathState, _after: Node | None) -> bool:
    return False


def apply_patches(
    ways: Sequence[Patch],  # patches from different trees to the same tree
    origin: Path,  # the folder that was copied
    read: Callable[[str], bytes | None] = _no_content,  # returns the content of a blob of the run, for merging
    selects: Callable[[str], bool] = bool,  # selects paths to apply
    would_lose: Callable[[bytes, PathState, Node | None], bool] = _loses_nothing,  # as in ``UncommittedWork``
    *,
    is_repeat: bool = False,  # whether they were applied before: then files that the user changed since are skipped
) -> Outcome:
    """Apply the changes to ``origin``, a folder of any kind. Changes that are already there are skipped.

    If several patches change a file, the first that fits is used. The first patch decides which files are applied.
    Raise UsageError if a patch does not match its changes, or cannot be applied. The folder is unchanged. Raise
    WorkspaceError if a file cannot be written. Earlier changes are rolled back.
    """
    todo: dict[bytes, list[_FileTask]] = {}
    for number, way in enumerate(ways):
        for task in _tasks(way):
            if not number and selects(task.change.path):
                todo[task.path] = [task]
            elif task.path in todo:
                todo[task.path].append(task)
    if not todo:
        return Outcome()
    try:
        path = origin.resolve()
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"the folder {origin} cannot be opened ({error.strerror}); its run still has the patch"
        ) from error
    try:
        with _staged(path) as stage:
            return _exchange(list(todo.values()), read, would_lose, root, stage, is_repeat=is_repeat)
    except OSError as error:
        name = f", {shown_name(error.filename)}" if error.filename else ""
        raise WorkspaceError(
            f"{shown_name(str(path))} cannot be changed ({error.strerror}{name}) and was left unchanged;"
            " make it writable, and apply again"
        ) from error
    finally:
        os.close(root)


class _FileTask(Struct, frozen=True):
    path: bytes
    change: PathChange
    patch: bytes

    @property
    def before(self) -> Node | None:
        return Node(self.change.before_mode, self.change.before) if self.change.before else None

    @property
    def after(self) -> Node | None:
        return Node(self.change.after_mode, self.change.after) if self.change.after else None


def _tasks(way: Patch) -> list[_FileTask]:
    if not way.changes and not way.text:
        return []
    parts = sections(way.text)
    if len(parts) != len(way.changes):
        raise UsageError("changes.patch does not match the changes of this run; apply it manually with git apply")
    return [_FileTask(_checked(change.path), change, part) for change, part in zip(way.changes, parts, strict=True)]


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
            remove_tree(stage / "work", open_fds=(lock,))
            os.mkdir("work", 0o700, dir_fd=lock)
            work = os.open("work", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=lock)
            try:
                yield work
            finally:
                os.close(work)
        finally:
            remove_tree(stage, open_fds=(lock,))  # if we are killed, this continues and the next apply waits for it
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


class _FileStep(Struct, frozen=True):
    """How one path is changed: by the patch of its task, or to a merged content."""

    task: _FileTask
    after: Node | None
    merged: bytes | None = None


def _exchange(
    todo: list[list[_FileTask]],
    read: Callable[[str], bytes | None],
    would_lose: Callable[[bytes, PathState, Node | None], bool],
    root: int,
    stage: int,
    *,
    is_repeat: bool,
) -> Outcome:
    here = {ways[0].path: look(root, ways[0].path) for ways in todo}
    open_tasks = [ways for ways in todo if here[ways[0].path].node != ways[0].after]
    if is_repeat:
        open_tasks = [ways for ways in open_tasks if here[ways[0].path].node == ways[0].before]
    conflicts = {ways[0].path for ways in open_tasks if _is_conflict(ways[0], read)}
    by_path = {
        ways[0].path: _step(ways, here[ways[0].path], read) for ways in open_tasks if ways[0].path not in conflicts
    }
    spared = {path for path, step in by_path.items() if step is not None and would_lose(path, here[path], step.after)}
    steps = [step for path, step in by_path.items() if step is not None and path not in spared]
    steps = _unobstructed(steps, here, root)
    if steps:
        plain = [step.task for step in steps if step.merged is None]
        before = {task.path: (task.before, here[task.path].content) for task in plain if task.before}
        after = {task.path: task.after for task in plain}
        patch = b"".join(task.patch for task in plain)
        contents = contents_after(patch, before, {path: node for path, node in after.items() if node}) if plain else {}
        contents |= {step.task.path: step.merged for step in steps if step.merged is not None}
        FileExchange(root, stage).run(here, {step.task.path: step.after for step in steps}, contents)
    done = {step.task.path for step in steps}
    names = {ways[0].path: ways[0].change.path for ways in open_tasks}
    return Outcome(
        tuple(name for path, name in names.items() if path in done),
        tuple(step.task.change.path for step in steps if step.merged is not None),
        tuple(name for path, name in names.items() if path not in done | conflicts | spared),
        tuple(name for path, name in names.items() if path in conflicts),
        tuple(name for path, name in names.items() if path in spared),
    )


def _is_conflict(task: _FileTask, read: Callable[[str], bytes | None]) -> bool:
    return task.after is not None and b">>>>>>>" in task.patch and has_conflict(read(task.after.id) or b"")


def _step(ways: list[_FileTask], here: PathState, read: Callable[[str], bytes | None]) -> _FileStep | None:
    """Return how to change a path, or None if the user's version must stay."""
    fitting = next((task for task in ways if here.node == task.before), None)
    if fitting is not None:
        return _FileStep(fitting, fitting.after)
    task = ways[0]
    if task.before is None or task.after is None or here.node is None:
        return None
    mode = merge_modes(task.before, task.after, here.node)
    base, agent = read(task.before.id), read(task.after.id)
    if mode is None or base is None or agent is None:
        return None
    merge = merge_texts(base, agent, here.content)
    if merge is None or merge.conflicts:
        return None
    return _FileStep(task, Node(mode, object_id("blob", merge.content)), merge.content)


def _unobstructed(steps: list[_FileStep], here: dict[bytes, PathState], root: int) -> list[_FileStep]:
    """Return the steps that are possible. Obstacles that other steps remove do not count."""
    while True:
        removed = {step.task.path for step in steps if step.after is None}
        free = [
            step for step in steps if not _is_obstructed(step.task.path, here[step.task.path].obstacle, removed, root)
        ]
        if len(free) == len(steps):
            return steps
        steps = free


def _is_obstructed(path: bytes, obstacle: bytes, removed: set[bytes], root: int) -> bool:
    if obstacle != path:
        return bool(obstacle) and obstacle not in removed
    try:
        inside = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except OSError:  # not a folder
        return True
    try:
        for at, folders, names, fd in os.fwalk(".", dir_fd=inside):
            links = [name for name in folders if os.path.islink(f"/proc/self/fd/{fd}/{name}")]  # noqa: PTH114
            relative = os.fsencode(os.path.normpath(at))
            prefix = path + b"/" if relative == b"." else path + b"/" + relative + b"/"
            if any(prefix + os.fsencode(name) not in removed for name in [*names, *links]):
                return True
    finally:
        os.close(inside)
    return False


def patch_across(first: History, before: str, second: History, after: str) -> Patch:
    """Return the patch from ``before``, a tree in ``first``, to ``after``, a tree in ``second``.

    Over an overlay, a tree contains only differences from the folder. If only one of the runs changed a file, the other
    tree has the folder's version. Raise WorkspaceError if a tree is not in its history, or only one of the runs used an
    overlay. Raise OSError if the temporary folder cannot be written.
    """
    if first.of_layer != second.of_layer:
        raise WorkspaceError("a tree of an overlay cannot be compared with a tree of a copy")
    first_files, second_files = first.base_files(), second.base_files()
    with TemporaryDirectory(prefix="stackmem-across-") as scratch:
        git_dir, path = Path(scratch) / "history.git", Path(scratch) / "patch"
        _read_also(git_dir, first.git_dir, second.git_dir)
        store = ObjectStore(git_dir)
        start = store.add_folders(_present(second_files | first_files | first.listed(before)).items())
        end = store.add_folders(_present(first_files | second_files | second.listed(after)).items())
        both = History(git_dir, git_dir)
        both.write_patch(start, end, path)
        return Patch(path.read_bytes(), both.changed(start, end))


def _present(files: dict[bytes, Node]) -> dict[bytes, Node]:
    return {path: node for path, node in files.items() if node.mode != REMOVED}


def _read_also(git_dir: Path, *others: Path) -> None:
    """Let a new store read the objects of other stores."""
    places = [location for other in others for location in (os.fspath(other / "objects"), *alternates(other))]
    (git_dir / "objects" / "info").mkdir(parents=True)
    lines = [os.fsencode(Path(location).resolve()) + b"\n" for location in dict.fromkeys(places)]
    (git_dir / "objects" / "info" / "alternates").write_bytes(b"".join(lines))
