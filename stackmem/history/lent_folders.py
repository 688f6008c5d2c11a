"""Installed packages for a copy: used in place in the user's folder, and never written.

A level with mounts mounts them at their paths in the copy. A level that only grants paths gets a link to the folder,
which it may read. If writes could not be prevented, they are copied.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from stackmem.errors import WorkspaceError
from stackmem.foreign.beneath import passes_link
from stackmem.workspace.tree import copy_folder

from .walk import path_bytes

How = Literal["mount", "link", "copy"]


def lend_folders(folder: Path, work: Path, paths: Iterable[str], how: How) -> tuple[dict[bytes, Path], tuple[str, ...]]:
    """Provide a copy with the folder's installed packages. Returns those used in place, and missing ones."""
    found: dict[bytes, Path] = {}
    missing = []
    root = os.open(work, os.O_PATH | os.O_DIRECTORY)
    try:
        for shown in paths:
            path = path_bytes(shown)
            source, target = folder / os.fsdecode(path), work / os.fsdecode(path)
            if not source.is_dir() or source.is_symlink():
                missing.append(shown)
            elif not passes_link(root, path.rpartition(b"/")[0] or b".") and _placed(source, target, how):
                found[path] = source
    except OSError as error:
        raise WorkspaceError(f"{error.filename} cannot be created ({error.strerror}); free disk space there") from error
    finally:
        os.close(root)
    return found if how != "copy" else {}, tuple(missing)


def _placed(source: Path, target: Path, how: How) -> bool:
    """Return whether the folder is in place. Content that the run put there is left alone."""
    if target.is_symlink() and os.fspath(target.readlink()) == os.fspath(source):
        if how == "link":
            return True
        target.unlink()
    with suppress(FileNotFoundError, NotADirectoryError):
        if target.is_symlink() or any(target.iterdir()):
            return False
        target.rmdir()
    if target.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    if how == "mount":
        target.mkdir()
    elif how == "link":
        target.symlink_to(source)
    else:
        copy_folder(source, target)
    return True
