"""Finds tasks: by folder, by name in ``./tasks``, or by name among the shipped tasks."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from stackmem.core.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def find_task(name_or_path: str, cwd: Path) -> Path | None:
    """Return the task's folder, or None for a folder without task.toml, which needs a prompt.

    A folder takes precedence over a name, and ``./tasks`` over the shipped tasks.

    Raise UsageError if the name is neither a task nor a folder.
    """
    if not name_or_path or "\0" in name_or_path:
        raise UsageError("the task name is empty; name a task ('stackmem tasks list') or a folder")
    folder = cwd / os.path.expanduser(name_or_path)
    if _is_task(folder):
        return folder
    if _NAME.fullmatch(name_or_path):
        for parent in _places(cwd):
            if _is_task(parent / name_or_path):
                return parent / name_or_path
    if _is_folder(folder):
        return None
    names = sorted(path.name for path in list_tasks(cwd))
    near = difflib.get_close_matches(Path(name_or_path).name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"
    raise UsageError(f"no task or folder {name_or_path[:200]!r}; {hint}")


def list_tasks(cwd: Path) -> tuple[Path, ...]:
    """Return all task folders that can be named, sorted by name. ``./tasks`` takes precedence for equal names."""
    folders: dict[str, Path] = {}
    for path in _places(cwd):
        if path.is_dir():
            for folder in path.iterdir():
                if _NAME.fullmatch(folder.name) and _is_task(folder):
                    folders.setdefault(folder.name, folder)
    return tuple(folders[name] for name in sorted(folders))


def shipped_tasks() -> Path:
    """Return the folder of the shipped tasks: inside the package in a wheel, next to the package in a checkout."""
    package = Path(__file__).resolve().parents[2]
    packaged = package / "_tasks"
    return packaged if packaged.is_dir() else package.parent / "tasks"


def _places(cwd: Path) -> tuple[Path, Path]:
    return cwd / "tasks", shipped_tasks()


def _is_task(folder: Path) -> bool:
    try:
        return (folder / "task.toml").is_file()
    except OSError:  # the name may be too long for the file system
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
