"""Lists the runs in a folder as rows, filtered and sorted.

A row is made from a run's result. Of a trace, only the beginning is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import bounded_lines, open_regular, read_regular
from stackmem.run.companion.git_inside import pack_cache
from stackmem.run.result import read_result
from stackmem.run.run_folder import RESULT, RUN, TRACE, frame_parent, is_run
from stackmem.run.stored_request import read_request
from stackmem.trace.lineage import came_from
from stackmem.trace.lock import INTERRUPTED, RUNNING, is_held
from stackmem.workspace.tree import disk_bytes

UNBEGUN = "never began"
REMOVING = ".removing"
"""The folder next to the runs for a run that is being removed. It is not listed."""


class RunRow(Struct, frozen=True):
    """A run in a list.

    Fields from the result are None in a run without a result.
    """

    run: str
    # when its folder was created, in UTC, as ISO 8601; empty if the folder's name is not a run's
    started: str
    # As ``RunResult.outcome``. ``running`` while a process writes it; ``interrupted`` if it was killed, so that it has
    # neither a writer nor a result; ``never began`` if it was killed before its first record.
    outcome: str
    task: str = ""
    model: str = ""
    strategy: str = ""
    steps: int | None = None
    frames: int | None = None  # number of pushes
    tokens: int | None = None
    cost_usd: float | None = None  # None if it is unknown
    wall_seconds: float | None = None
    parent: str = ""  # the run that it was forked from, or that an edited program continued; otherwise empty
    frame: str = ""  # id of the parallel frame of ``parent`` that the run is; otherwise empty
    # disk space of the run and its workspace, without the history that runs share
    disk_bytes: int | None = None
    # the first line of the request, in a conversation of the first one; empty if it was not read
    request: str = ""


FIELDS: tuple[str, ...] = RunRow.__struct_fields__
_RUN_NAME = re.compile(r"\d{8}T\d{6}Z-.+")
_STAMP = re.compile(r"\d{8}T\d{6}Z(-|$)", re.ASCII)
_CONDITION = re.compile(r"\s*(\w+)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_WORDS = re.compile(rf"\s+(?=(?:{'|'.join(FIELDS)})\s*[!<>=])|(?:^|\s+)--filter(?:\s+|=)")
_ORDERS: dict[str, Callable[[float, float], bool]] = {">": gt, "<": lt, ">=": ge, "<=": le, "=": eq, "!=": ne}
_NUMBERS = ("steps", "frames", "tokens", "cost_usd", "wall_seconds", "disk_bytes")

_FIRST_RECORDS = 12  # records in which the first request must be

_Condition = Callable[[RunRow], bool]


class _FirstFact(Struct):
    """The parts of an early fact in a trace that contain the request."""

    type: str
    text: str = ""
    task: str = ""
    session: dict[str, Any] | None = None


class _FirstRecord(Struct):
    event: _FirstFact


class _Start(Struct):
    """The description of a run without a result. ``run.json`` contains more."""

    task_name: str
    model: str
    strategy: str


def list_runs(runs_dir: Path) -> list[RunRow]:
    """Return a row for every run in a folder, the oldest first. Raise UsageError if ``runs_dir`` cannot be read."""
    return [run_row(folder) for folder in run_folders(runs_dir)]


def run_folders(runs_dir: Path) -> list[Path]:
    """Return the folders of runs, the oldest first. Raise UsageError if the folder cannot be read."""
    try:
        with os.scandir(runs_dir) as entries:
            names = sorted(entry.name for entry in entries if is_run(entry))
    except OSError as error:
        raise UsageError(f"{runs_dir} cannot be read ({error.strerror}); choose a folder with --runs-dir") from error
    return [runs_dir / name for name in names]


def find_runs(runs_dir: Path, conditions: Sequence[str], order: str, limit: int | None) -> list[RunRow]:
    """Return the runs that ``choose_runs`` selects, with sizes and requests, which are read for as few runs as
    possible.

    Raise UsageError as ``list_runs`` and ``choose_runs`` do.
    """
    rows = list_runs(runs_dir)
    if any("disk_bytes" in text or "request" in text for text in (order, *conditions)):
        return choose_runs(_all_measured(runs_dir, rows), conditions, order, limit)
    return _all_measured(runs_dir, choose_runs(rows, conditions, order, limit))


def _all_measured(runs_dir: Path, rows: Sequence[RunRow]) -> list[RunRow]:
    return measured([(runs_dir / row.run, row) for row in rows])


def measured(runs: Sequence[tuple[Path, RunRow]]) -> list[RunRow]:
    """Return the rows of these folders with their requests and their sizes on the disk."""
    shared = [pack_cache().folder]  # counted first, so that no run includes data that it shares with others
    _, *sizes = disk_bytes([shared, *(folders_of(folder) for folder, _ in runs)])
    return [
        replace(row, disk_bytes=size, request=first_request(folder))
        for (folder, row), size in zip(runs, sizes, strict=True)
    ]


def first_request(run_dir: Path) -> str:
    """Return the first line of a run's request. Empty if it cannot be read."""
    try:
        with open_regular(run_dir / TRACE) as trace:
            lines = [decode_json(line, _FirstRecord) for line in islice(bounded_lines(trace), _FIRST_RECORDS)]
    except (OSError, msgspec.DecodeError):
        return ""
    user_texts = [line.event.text for line in lines if line.event.type == "PersonSaid"]
    tasks = [line.event.task for line in lines if line.event.type == "RunStarted" and line.event.session is None]
    return next((text.strip().split("\n", 1)[0] for text in (*user_texts, *tasks) if text.strip()), "")


def name_of(folder: Path) -> str:
    r"""Return the id of a run, with ``\xNN`` for bytes that are not UTF-8."""
    return os.fsencode(folder.name).decode("utf-8", "backslashreplace")


def folders_of(run_dir: Path) -> list[Path]:
    """Return a run's own folders: that of its records, and that of its workspace if it still exists."""
    return [run_dir, *_scratch(run_dir)]


def _scratch(run_dir: Path) -> list[Path]:
    """Return the folder that contains the workspace, if it belongs to this run. The request alone is not trusted.

    Rule 1: It must have the same name as the run, in the form that only runs have.
    Rule 2: A copy of a run's folder has no workspace: the workspace belongs to the original.
    """
    try:
        work = Path(read_request(run_dir).workspace)
    except TraceError:
        return []
    own = work.is_absolute() and work.name == "workspace" and work.parent.name == run_dir.name
    if not own or not _RUN_NAME.fullmatch(run_dir.name) or work.parent.is_symlink() or not work.parent.is_dir():
        return []
    result = read_result(run_dir / RESULT)
    original = Path(result.run_dir) if result is not None else run_dir
    home = run_dir.parent.parent if run_dir.parent.name == REMOVING else run_dir.parent
    copied = (original / TRACE).exists() and not original.parent.samefile(home)
    return [] if copied else [work.parent]


def run_row(folder: Path) -> RunRow:
    """Return the row of one run in its current state."""
    # text, because joining paths takes a third of the time of a long list
    name, path = name_of(folder), os.fspath(folder)
    locked = is_held(f"{path}/{TRACE}")  # checked first: a run that ends writes its result before it releases the lock
    result = read_result(f"{path}/{RESULT}")
    if result is not None and not locked:
        return RunRow(
            run=name,
            started=_start_time(name),
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
            frame=frame_of(name),
        )
    outcome = RUNNING if locked else INTERRUPTED if has_begun(folder) else UNBEGUN
    row = RunRow(name, _start_time(name), outcome, frame=frame_of(name))
    with suppress(TraceError):
        row = replace(row, parent=came_from(folder))
    try:
        start = decode_json(read_regular(folder / RUN), _Start)
    except (OSError, msgspec.DecodeError):
        return row
    return replace(row, task=start.task_name, model=start.model, strategy=start.strategy)


def frame_of(name: str) -> str:
    """Return the id of the parallel frame that a run is, by its name. Empty for other runs."""
    parent = frame_parent(name)
    return name[len(parent) + 1 :] if parent else ""


def frame_runs(run_dir: Path) -> list[Path]:
    """Return the folders of the parallel frames of a run, in push order."""
    try:
        frames = [path for path in run_dir.parent.iterdir() if frame_parent(path.name) == run_dir.name and is_run(path)]
    except OSError:
        return []
    return sorted(frames, key=lambda path: _frame_number(path.name))


def _frame_number(name: str) -> int:
    return int(name.rpartition("-")[2])


def has_begun(folder: Path) -> bool:
    """Return whether a run has a trace with at least a part of a record."""
    try:
        return (folder / TRACE).stat().st_size > 0
    except OSError:
        return False


def _start_time(name: str) -> str:
    try:
        return datetime.fromisoformat(name[:16]).isoformat() if _STAMP.match(name) else ""
    except ValueError:
        return ""


def is_resumable(row: RunRow) -> bool:
    """Return whether a run that was interrupted can be resumed. Recordings of other agents cannot."""
    return row.outcome == INTERRUPTED and not (row.strategy.startswith("imported:") or "recording)" in row.strategy)


def choose_runs(rows: Iterable[RunRow], conditions: Sequence[str], order: str, limit: int | None) -> list[RunRow]:
    """Return the first ``limit`` rows that satisfy all conditions, in order.

    Parallel frames follow the run that they belong to, and do not count for the limit. Raise UsageError if a condition,
    the order or the limit is invalid.

    Args:
        conditions: ``FIELD=PATTERN`` or ``FIELD!=PATTERN`` with ``*`` and ``?``, ignoring case; for numbers also ``>``,
            ``<``, ``>=`` and ``<=``. Unknown values satisfy only ``!=``. One text may contain several conditions.
        order: A field, smallest first; with ``-`` before it, largest first. Unknown values come last.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} is too small; use 1 or more")
    holds = [_condition(text) for texts in conditions for text in _split(texts)]
    matching = [row for row in rows if all(condition(row) for condition in holds)]
    field = _field(order.removeprefix("-"))
    with_value = [row for row in matching if getattr(row, field) not in (None, "")]
    with_value.sort(key=lambda row: (getattr(row, field), row.run), reverse=order.startswith("-"))
    return _with_frames([*with_value, *(row for row in matching if getattr(row, field) in (None, ""))], limit)


def _with_frames(rows: Sequence[RunRow], limit: int | None) -> list[RunRow]:
    parents = {row.run for row in rows if not row.frame}
    frames: dict[str, list[RunRow]] = {}
    for row in rows:
        if row.frame and row.parent in parents:
            frames.setdefault(row.parent, []).append(row)
    first = [row for row in rows if not (row.frame and row.parent in parents)][:limit]
    return [
        each
        for row in first
        for each in (row, *sorted(frames.get(row.run, ()), key=lambda frame: _frame_number(frame.run)))
    ]


def _split(text: str) -> list[str]:
    """Split conditions before each field's name. Text copied from a command line may contain its flags and quotes."""
    parts = [part.strip() for part in _WORDS.split(text)]
    return [re.sub(r"^(['\"])(.*)\1$", r"\2", part, flags=re.DOTALL) for part in parts if part] or [text]


def _condition(text: str) -> _Condition:
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise UsageError(
            f"{text!r} is not a condition; write FIELD=PATTERN or a comparison, such as outcome=solved or steps>20"
        )
    field, sign, expected = _field(parts[1]), parts[2], parts[3]
    if field in _NUMBERS:
        return _number_condition(field, sign, _number(expected, text))
    if sign not in ("=", "!="):
        raise UsageError(f"{text!r} compares {field}, which is not a number; write {field}=PATTERN")
    pattern = expected.casefold()

    def matches(row: RunRow) -> bool:
        return fnmatchcase(str(getattr(row, field)).casefold(), pattern) == (sign == "=")

    return matches


def _number_condition(field: str, sign: str, expected: float) -> _Condition:
    def holds(row: RunRow) -> bool:
        value = getattr(row, field)
        return sign == "!=" if value is None else _ORDERS[sign](value, expected)

    return holds


def _number(text: str, condition: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError as error:
        raise UsageError(
            f"{condition!r} compares with {text!r}, which is not a number; write a number, such as steps>20"
        ) from error


def _field(name: str) -> str:
    if name not in FIELDS:
        raise UsageError(f"runs have no field {name!r}; known: {', '.join(FIELDS)}")
    return name
