"""Merges two versions of a text file that come from a common one, as ``git merge-file`` does."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.history.git import git_command, store_environment
from stackmem.history.objects import LINK, Node

AGENT, FOLDER = "the agent's version", "the version in your folder"
"""Labels of conflict markers."""
_MARKERS = (f"<<<<<<< {AGENT}\n".encode(), f">>>>>>> {FOLDER}\n".encode())
_MAX_BYTES = 8 * 1024 * 1024
_SECONDS = 60.0
_FAILED = 128  # git's exit codes from here on are failures; smaller ones are the number of conflicts


class Merge(Struct, frozen=True):
    """Two versions in one file. Lines that both changed are marked in it."""

    content: bytes
    conflicts: int


def merge_texts(base: bytes, agent: bytes, folder: bytes, sides: tuple[str, str] = (AGENT, FOLDER)) -> Merge | None:
    """Return the merge of two versions, or None if one of them is not a text that can be merged.

    ``sides`` are the labels of the two versions in conflict markers.
    """
    versions = (agent, base, folder)
    if any(b"\0" in version or len(version) > _MAX_BYTES for version in versions):
        return None
    with tempfile.TemporaryDirectory(prefix="stackmem-merge-") as scratch:
        for name, version in zip(("agent", "base", "folder"), versions, strict=True):
            (Path(scratch) / name).write_bytes(version)
        labels = ("-L", sides[0], "-L", "before", "-L", sides[1])
        command = git_command("merge-file", "-p", "-q", *labels, "agent", "base", "folder")
        try:
            done = subprocess.run(
                command, cwd=scratch, env=store_environment(Path(scratch)), stdin=subprocess.DEVNULL,
                capture_output=True, check=False, timeout=_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkspaceError(f"git cannot merge two versions of a file ({error}); try again") from error
    return None if done.returncode < 0 or done.returncode >= _FAILED else Merge(done.stdout, done.returncode)


def merge_modes(base: Node, agent: Node, folder: Node) -> str | None:
    """Return the mode of a merged file, or None if one version is not a regular file."""
    if LINK in {base.mode, agent.mode, folder.mode}:
        return None
    return agent.mode if folder.mode == base.mode else folder.mode


def has_conflict(content: bytes) -> bool:
    """Return whether a file still contains a conflict that a merge marked."""
    return all(marker in content for marker in _MARKERS)
