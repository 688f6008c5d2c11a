"""Whole directory trees, also such as a hostile command leaves behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from stackmem.errors import WorkspaceError

from .clip import shown_name


def remove_tree(path: Path, held: tuple[int, ...] = ()) -> None:
    """Remove a tree of any depth, also where directories forbid it; a missing one is no error, a link is not followed.

    Args:
        held: Descriptors that stay open until the tree is gone, also where we are killed meanwhile: a lock, for one.

    Raises:
        WorkspaceError: Something is left: another user's file, or a mount.
    """
    # shutil.rmtree recurses, and fails a thousand levels down.
    removed = _run("rm", "-rf", "--", os.fspath(path), held=held)
    if removed.returncode and not path.is_symlink():
        _run("chmod", "-R", "u+rwX", "--", os.fspath(path), held=held)
        removed = _run("rm", "-rf", "--", os.fspath(path), held=held)
    if removed.returncode:
        why = shown_name(removed.stderr.strip().split(b"\n")[-1])[-300:]
        raise WorkspaceError(f"cannot remove {shown_name(os.fspath(path))} ({why}); remove it by hand")


def _run(*command: str, held: tuple[int, ...]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=held, check=False)
