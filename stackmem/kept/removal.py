"""Removes a kept run and its workspace."""

from __future__ import annotations

from pathlib import Path

from stackmem.errors import TraceError, UsageError
from stackmem.history.objects import alternates
from stackmem.run.request import read_request
from stackmem.trace.lineage import HISTORY, TRACE, begun_by
from stackmem.trace.lock import Lock
from stackmem.workspace.tree import remove_tree


def forks_of(run_dir: Path) -> list[str]:
    """The runs beside it that cannot be read without it, sorted."""
    others = [other for other in run_dir.parent.iterdir() if other.name != run_dir.name]
    return sorted(other.name for other in others if _is_fork_of(run_dir.name, other) or _reads_files_of(run_dir, other))


def _is_fork_of(parent: str, other: Path) -> bool:
    try:
        fork = begun_by(other)
    except TraceError:  # it has no trace that could be read
        return False
    return fork is not None and fork.parent == parent


def _reads_files_of(run_dir: Path, other: Path) -> bool:
    """Whether files of its steps are kept only there; so it is from before a fork's first record on."""
    objects = (run_dir / HISTORY / "objects").resolve()
    return any(Path(place).resolve() == objects for place in alternates(other / HISTORY))


def remove_run(run_dir: Path) -> None:
    """Remove a run's folder, and its workspace where that is still there.

    Raises:
        UsageError: Forks depend on it; nothing was removed.
        TraceError: A process is writing it; nothing was removed.
        WorkspaceError: A part of it cannot be removed (named).
    """
    run_dir = run_dir.resolve()
    forks = forks_of(run_dir)
    if forks:
        more = f" and {len(forks) - 5:,} more" if len(forks) > 5 else ""
        raise UsageError(
            f"{run_dir.name} holds what its forks begin with: {', '.join(forks[:5])}{more}; remove those first, or "
            "keep them by stackmem trace pack"
        )
    lock = Lock(run_dir / TRACE)
    try:
        scratch = _scratch(run_dir)
        if scratch is not None:
            remove_tree(scratch)
        remove_tree(run_dir)
    finally:
        lock.close()


def _scratch(run_dir: Path) -> Path | None:
    """The folder that holds the workspace; only one that is named as the run, whatever its request says."""
    try:
        work = Path(read_request(run_dir).workspace)
    except TraceError:
        return None
    own = work.is_absolute() and work.name == "workspace" and work.parent.name == run_dir.name
    return work.parent if own and not work.parent.is_symlink() and work.parent.is_dir() else None
