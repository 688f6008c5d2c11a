"""The runs in a folder as rows, each from its result alone: of a trace no more is read than its beginning."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.errors import TraceError, UsageError
from stackmem.run.result import read_result
from stackmem.run.run_folder import RESULT, RUN, TRACE
from stackmem.trace.lineage import came_from
from stackmem.trace.lock import is_held

RUNNING, INTERRUPTED = "running", "interrupted"


class RunRow(Struct, frozen=True):
    """A run in a list.

    Attributes:
        started: When its folder was made, in UTC, as ISO 8601; empty where the folder has another name than runs have.
        outcome: As ``RunResult.outcome``; ``running`` while a process writes it; ``interrupted`` where none does and
            there is no result: it was killed.
        frames: Frames pushed.
        cost_usd: None where it is unknown.
        parent: The run that it was forked from, or that an edited program went on from; else empty.

    What only a result tells is None in a run that has none.

    """

    run: str
    started: str
    outcome: str
    task: str = ""
    model: str = ""
    strategy: str = ""
    steps: int | None = None
    frames: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    wall_seconds: float | None = None
    parent: str = ""


class _Start(Struct):
    """What a run without a result is called by; ``run.json`` holds more."""

    task_name: str
    model: str
    strategy: str


def list_runs(runs_dir: Path) -> list[RunRow]:
    """A row for every folder with a trace, by name: the oldest first.

    Raises:
        UsageError: ``runs_dir`` cannot be read.

    """
    try:
        folders = sorted(path for path in runs_dir.iterdir() if (path / TRACE).is_file())
    except OSError as error:
        raise UsageError(f"{runs_dir} cannot be read ({error.strerror}); name a folder with --runs-dir") from error
    return [_row(folder) for folder in folders]


def name_of(folder: Path) -> str:
    r"""The id of a run, with ``\xNN`` for bytes that are no UTF-8."""
    return os.fsencode(folder.name).decode("utf-8", "backslashreplace")


def _row(folder: Path) -> RunRow:
    name = name_of(folder)
    held = is_held(folder / TRACE)  # looked at first: who ends writes the result and then gives the lock back
    result = read_result(folder / RESULT)
    if result is not None and not held:
        return RunRow(
            run=name,
            started=_started(name),
            outcome=result.outcome,
            task=result.task,
            model=result.model,
            strategy=result.strategy,
            steps=result.steps,
            frames=result.frames,
            tokens=result.usage.total,
            cost_usd=result.cost_usd,
            wall_seconds=result.wall_seconds,
            parent=result.parent,
        )
    row = RunRow(name, _started(name), RUNNING if held else INTERRUPTED)
    with suppress(TraceError):
        row = replace(row, parent=came_from(folder))
    try:
        start = msgspec.json.decode((folder / RUN).read_bytes(), type=_Start)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return row
    return replace(row, task=start.task_name, model=start.model, strategy=start.strategy)


def _started(name: str) -> str:
    try:
        return datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).isoformat()
    except ValueError:
        return ""
