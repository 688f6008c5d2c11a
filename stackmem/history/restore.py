"""Restores a workspace to a tree of its history, before a call with unknown effects is repeated.

Rule 1: Afterwards the content of the tree is there, byte for byte. Newer files that would be kept are removed.
Rule 2: Files that a history does not keep (ignored, too large, caches, ``.git``) are never touched. If such a file was
    changed or created since, it is reported, because it cannot be restored.
Rule 3: No link is followed, and nothing outside the workspace is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.beneath import opener_for
from stackmem.workspace.clip import shown_name
from stackmem.workspace.overlay.mount import is_whiteout

from .git import git, store_environment
from .history import History
from .objects import EXECUTABLE, FOLDER, LINK, Node
from .walk import CACHES, path_bytes

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def restore(history: History, git_dir: Path, work_tree: Path, tree: str, since: float) -> tuple[str, ...]:
    """Restore the workspace to ``tree``. Returns paths that changed after ``since`` and cannot be restored.

    Raise WorkspaceError if the tree is not in the history, or the workspace cannot be written.

    Args:
        since: Seconds since 1970. Unrecorded files that changed later cannot be restored.
    """
    now = history.snapshot()
    nodes, there = history.files(tree), history.files(now)
    overlay = history.over
    try:
        root = os.open(work_tree, _FOLDER) if overlay is None else os.dup(overlay.view.fd)
    except OSError as error:
        raise _unwritable(work_tree, error) from error
    try:
        stray = [path for path, node in there.items() if nodes.get(path) != node]
        for path in stray:
            remove_file(root, path)
        files, fresh = _changed_since(work_tree if overlay is None else overlay.upper, nodes, since)
        for path in sorted({*fresh, *_emptied(stray, nodes)}, reverse=True):
            _remove_empty(root, path)
        for path, node in nodes.items():
            if there.get(path) != node:
                put_file(root, path, node.mode, content_of(git_dir, node.id))
    except OSError as error:
        raise _unwritable(work_tree, error) from error
    finally:
        os.close(root)
    if history.snapshot() != tree:
        raise WorkspaceError(
            f"the workspace {work_tree} cannot be restored to its state before the interrupted call; make sure that no "
            "other program uses it, and resume again"
        )
    omitted = [path for path in map(path_bytes, (out.path for out in history.left_out)) if path in nodes]
    return tuple(shown_name(path) for path in sorted({*files, *omitted}))


def content_of(git_dir: Path, name: str) -> bytes:
    """Return a file's content by its id. Raises ``WorkspaceError`` if it is missing."""
    return git("cat-file", "blob", name, cwd=git_dir, environment=store_environment(git_dir))


def _parent(root: int, path: bytes, *, make: bool = False) -> tuple[int, bytes]:
    """Open the parent folder of a path. Returns it with the file's name."""
    *parents, last = path.split(b"/")
    folder = os.dup(root)
    try:
        for name in parents:
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
    """Create a folder. Kept files and links in its place were removed before."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)


def remove_file(root: int, path: bytes) -> None:
    """Remove the file at a path below an open folder, if there is one. Raises ``OSError``."""
    with suppress(FileNotFoundError, NotADirectoryError):
        folder, name = _parent(root, path)
        try:
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)


def remove_empty_parents(root: int, path: bytes) -> None:
    """Remove the folders of a removed file that became empty, like git."""
    for folder in _folders(path):
        _remove_empty(root, folder)


def put_file(root: int, path: bytes, mode: str, content: bytes) -> None:
    """Write a file or link and its parent folders. Raises ``OSError``."""
    if mode == FOLDER:
        return
    folder, name = _parent(root, path, make=True)
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


def _emptied(stray: list[bytes], nodes: dict[bytes, Node]) -> set[bytes]:
    """Return the parent folders of removed files that are not needed any more."""
    parents = {parent for path in stray for parent in _folders(path)}
    return parents - {parent for path in nodes for parent in _folders(path)}


def _folders(path: bytes) -> Iterator[bytes]:
    while path := path.rpartition(b"/")[0]:
        yield path


def _remove_empty(root: int, path: bytes) -> None:
    with suppress(OSError):  # it contains a file that is not kept, or is gone already
        folder, name = _parent(root, path)
        try:
            os.rmdir(name, dir_fd=folder)
        finally:
            os.close(folder)


def _changed_since(top: Path, nodes: dict[bytes, Node], since: float) -> tuple[list[bytes], list[bytes]]:
    """Return files that are not kept and were changed or created later, except in caches; and such folders.

    These folders may be empty and are then removed, because a repeated call may create them again.
    """
    files: list[bytes] = []
    fresh: list[bytes] = []
    folders = {parent for path in nodes for parent in _folders(path)}
    root = os.open(top, _FOLDER)
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
                files.append(at)  # its content is unknown
                continue
            try:
                for entry in list(os.scandir(folder)):
                    name = os.fsencode(entry.name)
                    path = at + b"/" + name if at else name
                    later = _later(folder, name, git_limit if path.startswith(b".git/") else limit)
                    if not entry.is_dir(follow_symlinks=False):
                        files += [path] if later and path not in nodes else []
                    elif name not in CACHES:
                        todo.append(path)
                        own = b".git" in path.split(b"/")  # a repository needs its empty folders
                        fresh += [path] if later and path not in folders and not own else []
            finally:
                os.close(folder)
    finally:
        os.close(root)
    return files, fresh


def _repository_since_ns(root: int) -> int:
    """Return when the run got its repository, before any command; its configuration is written last."""
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
        f"the workspace {work_tree} cannot be restored ({error.strerror}); free disk space or fix the permissions"
    )
