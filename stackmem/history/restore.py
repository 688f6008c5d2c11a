"""Putting a workspace back to a tree that its history keeps, before a call whose effects nobody knows is repeated.

Rule 1: what the tree holds is there afterwards, byte for byte; what appeared since and would be kept is gone.
Rule 2: what a history does not keep (ignored, too large, caches, ``.git``) is never touched; where such a file was
    changed or made since, that is told, because it cannot be put back.
Rule 3: no link is followed, and nothing outside the workspace is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stackmem.errors import WorkspaceError
from stackmem.foreign.beneath import opener_for
from stackmem.workspace.clip import shown_name
from stackmem.workspace.overlay.mount import is_whiteout

from .git import git, store_environment
from .history import History
from .objects import EXECUTABLE, FOLDER, LINK, Node
from .walk import CACHES, path_bytes

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def restore(history: History, git_dir: Path, work_tree: Path, tree: str, since: float) -> tuple[str, ...]:
    """Make the workspace hold what ``tree`` does."""
    now = history.snapshot()
    wanted, there = history.files(tree), history.files(now)
    over = history.over
    try:
        root = os.open(work_tree, _FOLDER) if over is None else os.dup(over.view.fd)
    except OSError as error:
        raise _unwritable(work_tree, error) from error
    try:
        stray = [path for path, node in there.items() if wanted.get(path) != node]
        for path in stray:
            remove_file(root, path)
        left, fresh = _changed_since(work_tree if over is None else over.upper, wanted, since)
        for path in sorted({*fresh, *_emptied(stray, wanted)}, reverse=True):
            _remove_empty(root, path)
        for path, node in wanted.items():
            if there.get(path) != node:
                put_file(root, path, node.mode, content_of(git_dir, node.id))
    except OSError as error:
        raise _unwritable(work_tree, error) from error
    finally:
        os.close(root)
    if history.snapshot() != tree:
        raise WorkspaceError(
            f"the workspace {work_tree} cannot be put back to what it was before the interrupted call; see that no "
            "other program works there, and resume again"
        )
    held = [path for path in map(path_bytes, (out.path for out in history.left_out)) if path in wanted]
    return tuple(shown_name(path) for path in sorted({*left, *held}))


def content_of(git_dir: Path, name: str) -> bytes:
    """A file's content by its id in a history; raises ``WorkspaceError`` where it is not there."""
    return git("cat-file", "blob", name, cwd=git_dir, environment=store_environment(git_dir))


def _above(root: int, path: bytes, *, make: bool = False) -> tuple[int, bytes]:
    """The open folder that a path lies in, and its name there."""
    *above, last = path.split(b"/")
    folder = os.dup(root)
    try:
        for name in above:
            if make:
                _make_folder(folder, name)
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder, last


def _make_folder(parent: int, name: bytes) -> None:
    """A real folder of that name; a file or a link in its place is none of what is kept, as those are gone by now."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)


def remove_file(root: int, path: bytes) -> None:
    """Remove what stands at a path below an open folder, if anything does; raises ``OSError``."""
    with suppress(FileNotFoundError, NotADirectoryError):
        folder, name = _above(root, path)
        try:
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)


def put_file(root: int, path: bytes, mode: str, content: bytes) -> None:
    """Write a file or a link where there is none, its folders with it; raises ``OSError``."""
    if mode == FOLDER:
        return
    folder, name = _above(root, path, make=True)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        if mode == LINK:
            os.symlink(content, name, dir_fd=folder)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o777 if mode == EXECUTABLE else 0o666, dir_fd=folder), "wb") as file:
            file.write(content)
    finally:
        os.close(folder)


def _emptied(stray: list[bytes], wanted: dict[bytes, Node]) -> set[bytes]:
    """The folders above what was removed in which nothing is wanted."""
    found = {above for path in stray for above in _folders(path)}
    return found - {above for path in wanted for above in _folders(path)}


def _folders(path: bytes) -> Iterator[bytes]:
    while path := path.rpartition(b"/")[0]:
        yield path


def _remove_empty(root: int, path: bytes) -> None:
    with suppress(OSError):  # something that is not kept is in it, or it is gone
        folder, name = _above(root, path)
        try:
            os.rmdir(name, dir_fd=folder)
        finally:
            os.close(folder)


def _changed_since(place: Path, wanted: dict[bytes, Node], since: float) -> tuple[list[bytes], list[bytes]]:
    """What is not kept and was changed or made later: files anywhere but in caches; and folders.

    Such a folder may hold nothing, and is then to be removed: a repeated call may make it again.
    """
    found: list[bytes] = []
    fresh: list[bytes] = []
    folders = {above for path in wanted for above in _folders(path)}
    root = os.open(place, _FOLDER)
    opened = opener_for(root)
    limit = int(since * 1e9)
    git_limit = max(limit, _repository_since_ns(root))
    todo = [b""]
    try:
        while todo:
            at = todo.pop()
            try:
                folder = opened(root, at or b".", _FOLDER)
            except OSError:
                found.append(at)  # nobody can say what is in it
                continue
            try:
                for entry in list(os.scandir(folder)):
                    name = os.fsencode(entry.name)
                    path = at + b"/" + name if at else name
                    later = _later(folder, name, git_limit if path.startswith(b".git/") else limit)
                    if not entry.is_dir(follow_symlinks=False):
                        found += [path] if later and path not in wanted else []
                    elif name not in CACHES:
                        todo.append(path)
                        own = b".git" in path.split(b"/")  # a repository needs its empty folders
                        fresh += [path] if later and path not in folders and not own else []
            finally:
                os.close(folder)
    finally:
        os.close(root)
    return found, fresh


def _repository_since_ns(root: int) -> int:
    """When the run was given its repository, which a command waits for; its configuration is put in place last."""
    try:
        return os.stat(".git/config", dir_fd=root, follow_symlinks=False).st_ctime_ns
    except OSError:
        return 0


def _later(folder: int, name: bytes, limit: int) -> bool:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return status.st_ctime_ns > limit and not is_whiteout(status)
    except OSError:
        return False


def _unwritable(work_tree: Path, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"the workspace {work_tree} cannot be put back to what it was ({error.strerror}); make room or rights there"
    )
