"""Finds a stored run by its folder, its id, the beginning or end of an id, or ``last``."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.text import quantity
from stackmem.run.companion.conversations import SECOND_CHARS, kept_sessions, run_folders, started_at
from stackmem.run.run_folder import TRACE, frame_parent
from stackmem.trace.lineage import came_from
from stackmem.trace.lock import is_held

_SHORT = re.compile(r"[0-9a-f]{6}")


def find_run(name: str, *places: Path) -> Path:
    """Return the folder for a path, an id, a unique prefix of an id, its last six characters, or ``last``.

    ``name`` may also be the folder of a trial, because a trial contains one run. ``places`` are folders of runs.
    Raise UsageError if no run matches, or more than one.
    """
    target = Path(os.path.expanduser(name))
    if target.name == TRACE and _is_file(target):
        return target.parent
    if _is_file(target / TRACE):
        return target
    if os.sep in name and len(inside := run_folders(target)) == 1:  # a trial of a bench
        return inside[0]
    runs = sorted((path for folder in places for path in run_folders(folder)), key=lambda path: path.name)
    own = [path for path in runs if not frame_parent(path.name)]  # a parallel frame is found by its whole id
    if name == "last":
        started_runs = [(path.name[:SECOND_CHARS], started, path) for path in own if (started := started_at(path))]
        if started_runs:
            return max(started_runs)[2]
    matches = [path for path in runs if path.name == name]
    matches = matches or [path for path in own if name and path.name.startswith(name)]
    matches = matches or [path for path in runs if name and path.name.startswith(name)]
    matches = matches or [path for path in runs if _SHORT.fullmatch(name) and path.name.endswith(f"-{name}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(path.name for path in matches[:5])
        raise UsageError(f"{name!r} matches {len(matches):,} runs: {names}; type more of the id, or the folder")
    location = " and ".join(map(str, places))
    if not runs:
        raise UsageError(
            f"{location} contains no runs yet; start one with stackmem solve, or choose another folder with --runs-dir"
        )
    raise UsageError(f"no run {name!r} in {location}; stackmem runs lists the {quantity(len(runs), 'run')} there")


def newest_session(runs_dir: Path, folder: Path) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the newest conversation about ``folder`` that no process has open, and the newer ones that one has open.

    The runs that an open conversation was forked from, as ``/undo`` does, belong to it and are not returned.
    """
    busy: list[Path] = []
    before_busy: set[str] = set()
    for path, subject in kept_sessions(runs_dir):
        if subject != folder:
            continue
        is_open = is_held(path / TRACE)
        if not is_open and path.name not in before_busy:
            return path, tuple(busy)
        if is_open:
            busy.append(path)
        with suppress(TraceError):
            before_busy.add(came_from(path))
    return None, tuple(busy)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or in a folder without permission
        return False
