"""A new workspace with the files of a kept moment."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import UNSET

from stackmem.core.state import State
from stackmem.errors import UsageError
from stackmem.history.walk import path_bytes
from stackmem.trace.imported import refuse_imported
from stackmem.trace.open_run import Run

from .assemble import Places
from .checks import copy_folder
from .request import Request


def must_be_original(run: Run, doing: str) -> None:
    """Refuse what would go on from words that were never said here.

    Args:
        doing: What was asked for, as in ``forked``.

    Raises:
        UsageError: The run was imported, or is a redacted copy.
        TraceError: The trace is broken at its start.

    """
    refuse_imported(run.start, doing)
    if run.start.redacted is not UNSET:
        raise UsageError(
            f"{run.id} is a redacted copy and cannot be {doing}: it holds other words than were said; use the original"
        )


def refill(run: Run, state: State, places: Places, request: Request) -> tuple[str, ...]:
    """Put the files of one of the run's states into a new workspace.

    Returns:
        The dependency folders of the request that are nowhere any more, and so not there.

    Raises:
        UsageError: The run kept no files.
        TraceError: Its history lacks some.
        OSError: The workspace cannot be written.

    """
    if not state.tree:
        raise UsageError(f"the run {run.id} kept no files, so nothing can go on from it")
    places.work.mkdir(parents=True)
    places.scratch.chmod(0o700)
    run.snapshot(state).write_into(places.work)
    missing = []
    for shown in request.leave_out:
        path = os.fsdecode(path_bytes(shown))
        there = [Path(place) / path for place in (request.workspace, request.subject) if (Path(place) / path).is_dir()]
        if not there:
            missing.append(shown)
        elif not (places.work / path).exists():
            (places.work / path).parent.mkdir(parents=True, exist_ok=True)
            copy_folder(there[0], places.work / path)
    return tuple(missing)
