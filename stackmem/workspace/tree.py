"""Removes, measures and copies directory trees, including trees that a hostile command left behind."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stackmem.core.errors import WorkspaceError, way_out
from stackmem.core.text import tail

from .clip import shown_name


def remove_tree(path: Path, open_fds: tuple[int, ...] = ()) -> None:
    """Remove a tree of any depth, even if its directories are not writable. It may be missing; links are not
    followed.

    ``open_fds`` are descriptors, such as a lock. They stay open until the tree is gone, even if this process is killed.
    Raise WorkspaceError if something remains: another user's file, or a mount.
    """
    # shutil.rmtree recurses and fails about a thousand levels down.
    removed = _run("rm", "-rf", "--", os.fspath(path), open_fds=open_fds)
    if removed.returncode and not path.is_symlink():
        _run("chmod", "-R", "u+rwX", "--", os.fspath(path), open_fds=open_fds)
        removed = _run("rm", "-rf", "--", os.fspath(path), open_fds=open_fds)
    if removed.returncode:
        reason = shown_name(removed.stderr.strip().split(b"\n")[-1])[-300:]
        raise WorkspaceError(f"cannot remove {shown_name(os.fspath(path))} ({reason}); remove it by hand")


def disk_bytes(groups: Sequence[Sequence[Path]]) -> list[int | None]:
    """Return the disk usage of each group of trees, or None if unknown. Links are not followed."""
    paths = [os.fsencode(path) for group in groups for path in group]
    try:
        result = subprocess.run(
            ["du", "-sx0", "-B1", "--files0-from=-"], input=b"\0".join(paths), capture_output=True, check=False
        )
    except OSError:
        return [None] * len(groups)
    rows = (line.partition(b"\t") for line in result.stdout.split(b"\0") if line)
    sizes = {path: int(size) for size, _, path in rows}
    measured = ([sizes.get(os.fsencode(path)) for path in group] for group in groups)
    return [sum(size for size in group if size is not None) if any(group) else None for group in measured]


def sockets_below(root: Path) -> list[Path]:
    """Return the unix sockets among the first 10,000 entries at or below a path. Links are not followed."""
    if root.is_socket():
        return [root]
    paths, remaining = [], 10_000
    for folder, _, files in os.walk(root):
        paths += [path for name in files[: max(0, remaining)] if stat.S_ISSOCK(_mode(path := Path(folder, name)))]
        remaining -= len(files) + 1
        if remaining < 0:
            break
    return paths


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _run(*command: str, open_fds: tuple[int, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=open_fds, check=False)
    except OSError as error:
        raise WorkspaceError(f"{command[0]} cannot be run ({error.strerror}); {way_out(error)}") from error


def copy_folder(source: Path, target: Path) -> Path:
    """Copy a folder with modes, times and links. Shares blocks if the file system supports it.

    Raise WorkspaceError if the copy failed because of missing disk space or permissions.
    """
    process = _run("cp", "-a", "--reflink=auto", "--no-target-directory", "--", str(source), str(target))
    if process.returncode:
        reason = tail(process.stderr.decode(errors="replace").strip(), 1, 300)
        raise WorkspaceError(f"{source} cannot be copied ({reason}); free disk space or fix the permissions")
    return target
