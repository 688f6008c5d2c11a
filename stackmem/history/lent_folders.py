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

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.beneath import passes_link
from stackmem.workspace.clip import shown_name
from stackmem.workspace.tree import copy_folder

from .selection import DEPENDENCIES
from .walk import CACHES, path_bytes

_MAX_FOLDERS = 20_000
_MAX_NAMES = 5
How = Literal["mount", "link", "copy"]


def lend_folders(folder: Path, work: Path, paths: Iterable[str], how: How) -> tuple[dict[bytes, Path], tuple[str, ...]]:
    """Provide a copy with the folder's installed packages. Returns those used in place, and missing ones.

    Raise WorkspaceError if the copy cannot be written.

    Args:
        work: The copy. No command may be running in it.
        paths: Relative to both folders, spelled by ``shown_name``. A path that the run replaced is in neither result.
    """
    lent: dict[bytes, Path] = {}
    missing = []
    root = os.open(work, os.O_PATH | os.O_DIRECTORY)
    try:
        for name in paths:
            path = path_bytes(name)
            source, target = folder / os.fsdecode(path), work / os.fsdecode(path)
            if not source.is_dir() or source.is_symlink():
                missing.append(name)
            elif not passes_link(root, path.rpartition(b"/")[0] or b".") and _placed(source, target, how):
                lent[path] = source
    except OSError as error:
        raise WorkspaceError(f"{error.filename} cannot be created ({error.strerror}); free disk space there") from error
    finally:
        os.close(root)
    return lent if how != "copy" else {}, tuple(missing)


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


def installed_packages(root: Path, folder: Path, patched: Iterable[str]) -> list[str]:
    """Describe the packages that a run installed into folders that are not in its patch.

    ``root`` contains the run's files, ``folder`` the user's, ``patched`` the paths of the patch. A package is new if
    the user's folder has no entry with its name there.
    """
    new: dict[str, list[str]] = {}
    for number, (at, folders, names) in enumerate(os.walk(root)):
        relative = Path(at).relative_to(root)
        inside = next((depth for depth, part in enumerate(relative.parts) if os.fsencode(part) in DEPENDENCIES), None)
        folders[:] = [each for each in folders if each != ".git" and os.fsencode(each) not in CACHES]
        if number > _MAX_FOLDERS:
            break
        if inside is not None and relative.name in ("node_modules", "site-packages"):
            entries = [each for each in [*folders, *names] if not each.startswith((".", "_"))]
            packages = {each.partition(".dist-info")[0] for each in entries if not (folder / relative / each).exists()}
            name = shown_name(str(Path(*relative.parts[: inside + 1])))
            new.setdefault(name, []).extend(sorted(map(shown_name, packages)))
            folders[:] = []
    paths = tuple(patched)
    return [
        f"{name} (apply does not bring installed packages, which the run may need: {', '.join(packages[:_MAX_NAMES])}"
        f"{f' and {len(packages) - _MAX_NAMES} more' if len(packages) > _MAX_NAMES else ''})"
        for name, packages in new.items()
        if packages and not any(path.startswith(f"{name}/") for path in paths)
    ]
