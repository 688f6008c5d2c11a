"""Removes runs with their workspaces: a single run, or all old ones.

Rule 1: A run disappears from the list in one step, when its folder is moved to ``.removing``. If the process is killed
    after that, the next ``prune`` removes the folder, and the workspace with it.
Rule 2: A run stays while a fork starts from it or a process writes it.
Rule 3: Everything that is not the caller's own run stays: links, and files of other users.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError, WorkspaceError
from stackmem.history.objects import alternates
from stackmem.run.companion.git_inside import pack_cache
from stackmem.run.run_folder import TRACE, frame_parent
from stackmem.trace.lineage import HISTORY, begun_by
from stackmem.trace.lock import Lock, is_held
from stackmem.workspace.tree import disk_bytes, remove_tree

from .run_list import REMOVING, folders_of, frame_runs, name_of

_AGE = re.compile(r"(\d{1,6})([hdw])")
_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}


class Pruned(Struct, frozen=True):
    """A run that is old enough to be removed."""

    run: str
    bytes: int | None  # its size on the disk, including its workspace; None if unknown
    removed: bool  # whether it was removed, or would be
    reason: str = field(default="", name="why")  # why it stays; empty if it does not


def read_age(text: str) -> float:
    """Return the seconds in ``30d``, ``12h`` or ``4w``. Raise UsageError if the text is not an age."""
    parts = _AGE.fullmatch(text.strip())
    if parts is None:
        raise UsageError(f"{text!r} is not a valid age; write hours, days or weeks, such as 12h, 30d or 4w")
    return float(parts[1]) * _SECONDS[parts[2]]


def prune(runs_dir: Path, older_seconds: float, keep_last: int, *, dry_run: bool) -> Iterator[Pruned]:
    """Remove the runs whose trace is older than this. Yields one row per run, forks before the runs they start from."""
    try:
        entries = [runs_dir / name for name in os.listdir(runs_dir)]
    except OSError as error:
        raise UsageError(f"{runs_dir} cannot be read ({error.strerror}); choose a folder with --runs-dir") from error
    yield from _prune_left(runs_dir, dry_run=dry_run)
    written = {path: at for path in entries if (at := _last_written(path)) is not None}
    run_names = {path.name for path in written}
    # parallel frames are removed with the run that they belong to
    newest = sorted(
        (path for path in written if frame_parent(path.name) not in run_names),
        key=lambda path: (written[path], path.name), reverse=True,
    )  # fmt: skip
    limit = time.time() - older_seconds
    old = {path.name for path in newest[keep_last:] if written[path] <= limit}
    frames = sorted(path for path in written if frame_parent(path.name) in old)
    needs = {path.name: names for path in entries if (names := _needs(path))}
    for path in _forks_first([*frames, *(path for path in newest if path.name in old)], needs):
        row = _judged(path, needs)
        if row.removed and not dry_run:
            row = _tried(row, partial(_remove, path))
        if row.removed:
            needs.pop(path.name, None)
        yield row


def prune_histories(older_seconds: float, *, dry_run: bool) -> int:
    """Remove histories that were not used for this long and that no run needs, and return the freed bytes."""
    return pack_cache().prune(older_seconds, dry_run=dry_run)


def _prune_left(runs_dir: Path, *, dry_run: bool) -> Iterator[Pruned]:
    """Remove runs whose removal was interrupted when a process was killed."""
    folder = runs_dir / REMOVING
    if folder.is_symlink() or not folder.is_dir():
        return
    with nullcontext((folder, -1)) if dry_run else _removing(runs_dir) as (_, descriptor):
        for path in sorted(folder.iterdir()):
            row = Pruned(name_of(path), _own_bytes(path), True)
            yield row if dry_run else _tried(row, partial(_remove_moved, path, descriptor))


def _own_bytes(run_dir: Path) -> int | None:
    """Return a run's size on the disk without data that it shares with other runs."""
    return disk_bytes([[pack_cache().folder], folders_of(run_dir)])[1]


def _tried(row: Pruned, remove: Callable[[], None]) -> Pruned:
    try:
        remove()
    except (TraceError, WorkspaceError) as error:
        return replace(row, removed=False, reason=str(error))
    return row


def _last_written(run_dir: Path) -> float | None:
    """Return when a run's trace was last written, or None if the folder is not a run."""
    try:
        return (run_dir / TRACE).lstat().st_mtime
    except OSError:
        return None


def _judged(run_dir: Path, needs: Mapping[str, frozenset[str]]) -> Pruned:
    reason = _not_ours(run_dir)
    if not reason and is_held(run_dir / TRACE):
        reason = "a process is writing it"
    if not reason and (forks := sorted(name for name, parents in needs.items() if run_dir.name in parents)):
        reason = f"its fork {forks[0]} needs its records"
    return Pruned(name_of(run_dir), _own_bytes(run_dir), not reason, reason)


def _not_ours(run_dir: Path) -> str:
    """Return why a folder that looks like a run is not removed automatically. Empty if it can be removed."""
    for path, kind in ((run_dir, stat.S_ISDIR), (run_dir / TRACE, stat.S_ISREG)):
        try:
            status = path.lstat()
        except OSError as error:
            return f"{path.name} cannot be read ({error.strerror})"
        if not kind(status.st_mode):
            return f"{path.name} is a link or a special file"
        if status.st_uid != os.geteuid():
            return f"{path.name} belongs to another user"
    return ""


def _forks_first(runs: list[Path], needs: Mapping[str, frozenset[str]]) -> Iterator[Path]:
    """Yield the runs, each after the runs that need it."""
    waiting = {run.name: run for run in runs}
    while waiting:
        required = frozenset[str]().union(*(needs.get(name, frozenset()) - {name} for name in waiting))
        # a cycle, which forks cannot create: take any
        free = [name for name in waiting if name not in required] or list(waiting)
        for name in free:
            yield waiting.pop(name)


def _needs(run_dir: Path) -> frozenset[str]:
    """Return the names of runs in the same folder that are needed to read this one."""
    needs = set()
    with suppress(TraceError):  # it has no readable trace
        fork = begun_by(run_dir)
        needs |= {fork.parent} if fork is not None else set()
    runs = run_dir.parent.resolve()
    for alternate in alternates(run_dir / HISTORY):
        # The files of these steps are stored only there. A fork needs that run even before its own first record exists.
        owner = Path(alternate).resolve()
        if owner.is_relative_to(runs) and owner != runs:
            needs.add(owner.relative_to(runs).parts[0])
    return frozenset(needs - {run_dir.name})


def remove_run(run_dir: Path) -> list[str]:
    """Remove a run's folder, and its workspace if that still exists, with the runs of its parallel frames.

    Returns the names of the removed runs, the frames first.

    Raises:
        UsageError: Forks start from the run.
        TraceError: A process is writing the run. As after ``UsageError``, nothing was removed.
        WorkspaceError: A part cannot be removed. The message names it.
    """
    run_dir = run_dir.resolve()
    removed = [*frame_runs(run_dir), run_dir]
    names = {path.name for path in removed}
    others = (other for other in run_dir.parent.iterdir() if other.name not in names)
    forks = sorted(other.name for other in others if names & _needs(other))
    if forks:
        more = f" and {len(forks) - 5:,} more" if len(forks) > 5 else ""
        raise UsageError(
            f"forks need the records of {run_dir.name}: {', '.join(forks[:5])}{more}; remove the forks first, or save "
            "them with stackmem trace pack"
        )
    for path in removed:
        Lock(path / TRACE).close()  # nothing is removed if a process writes one of them
    for path in removed:
        _remove(path)
    return [path.name for path in removed]


def _remove(run_dir: Path) -> None:
    lock = Lock(run_dir / TRACE)
    try:
        with _removing(run_dir.parent) as (folder, descriptor):
            moved = folder / run_dir.name
            try:
                run_dir.rename(moved)
            except OSError as error:
                raise WorkspaceError(
                    f"cannot move {run_dir} to {folder} ({error.strerror}); remove it by hand"
                ) from error
            _remove_moved(moved, descriptor)
    finally:
        lock.close()


@contextmanager
def _removing(runs_dir: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folder for runs that are being removed, for one process at a time, and the locked descriptor."""
    folder = runs_dir / REMOVING
    descriptor = _lock_folder(folder)
    try:
        yield folder, descriptor
    finally:
        with suppress(OSError):  # it is not empty if something could not be removed
            folder.rmdir()
        os.close(descriptor)


def _lock_folder(folder: Path) -> int:
    while True:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:  # the previous process removed it on exit
            continue
        except OSError as error:
            raise WorkspaceError(f"{folder} cannot be used ({error.strerror}); move it to another place") from error
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _remove_moved(moved: Path, descriptor: int) -> None:
    """Remove a moved run, its workspace first, because only the run's folder contains its location."""
    for folder in reversed(folders_of(moved)):
        remove_tree(folder, open_fds=(descriptor,))
