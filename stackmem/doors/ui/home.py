"""The top of the list in ``stackmem ui``: runs that wait for the user, and what running runs do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.core.person_facts import TurnEnded
from stackmem.core.text import mark_cut
from stackmem.foreign.files import bounded_lines, open_regular
from stackmem.review.kept.run_list import RunRow, is_resumable
from stackmem.run.result import read_result
from stackmem.run.run_folder import RESULT, TRACE
from stackmem.trace.lock import INTERRUPTED, RUNNING
from stackmem.trace.record import Record

from .places import Places

MAX_SHOWN = 5
_WAITING = ("input_needed", "halted", INTERRUPTED)
"""Outcomes that wait for the user, the most urgent first."""
_BRIEF_CHARS = 300
_MAX_READ_BYTES = 64 << 20  # of one trace and request, so that a long trace does not delay the page
_CALL_FIELDS = ("command", "path", "name")

_records = msgspec.json.Decoder(Record)


class WaitingRun(Struct, frozen=True):
    """A run that waits for the user."""

    id: str
    run: str
    task: str
    outcome: str
    started: str
    message: str  # its question, or why it stopped; empty if the outcome says everything


class RunningRun(Struct, frozen=True):
    """A run in progress."""

    id: str
    run: str
    task: str
    strategy: str
    model: str
    steps: int  # replies since the run or fork began
    doing: str
    seconds: float  # since it began
    silent_seconds: float  # since its last event


class Home:
    """Computes the top of the list. It keeps its place in the traces of running runs."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._followed: dict[Path, _Followed] = {}

    def state(self) -> dict[str, Any]:
        """Return the runs that wait for the user and the running ones, newest first, and the number of each."""
        rows = [
            (f"{number}/{path}", row, folder.runs.folder_of(path))
            for number, folder in enumerate(self._places.all)
            if not folder.is_bench
            for path, row in folder.runs.rows.items()
            if not row.frame
        ]
        continued = {row.parent for _, row, _ in rows if row.parent}
        waiting = [entry for entry in rows if _waits(entry[1]) and entry[1].run not in continued]
        waiting.sort(key=lambda entry: entry[1].started, reverse=True)
        waiting.sort(key=lambda entry: _WAITING.index(entry[1].outcome))
        running = sorted(
            (entry for entry in rows if entry[1].outcome == RUNNING), key=lambda entry: entry[1].started, reverse=True
        )
        followed = [self._running(name, row, folder) for name, row, folder in running[:MAX_SHOWN] if folder]
        self._followed = {folder: self._followed[folder] for _, _, folder in running if folder in self._followed}
        return {
            "waiting": [_waiting(*entry) for entry in waiting[:MAX_SHOWN]],
            "waiting_count": len(waiting),
            "running": followed,
            "running_count": len(running),
        }

    def _running(self, name: str, row: RunRow, folder: Path) -> RunningRun:
        followed = self._followed.setdefault(folder, _Followed(folder / TRACE))
        followed.read()
        now = time.time()
        return RunningRun(
            name,
            row.run,
            row.task,
            row.strategy,
            row.model,
            followed.steps,
            _doing(followed.last),
            max(0.0, now - followed.begun_at) if followed.begun_at else 0.0,
            max(0.0, now - followed.last_at) if followed.last_at else 0.0,
        )


def _waits(row: RunRow) -> bool:
    return row.outcome in _WAITING and (row.outcome != INTERRUPTED or is_resumable(row))


def _waiting(name: str, row: RunRow, folder: Path | None) -> WaitingRun:
    result = read_result(folder / RESULT) if folder else None
    message = mark_cut((result.failure or result.result).strip(), _BRIEF_CHARS) if result else ""
    return WaitingRun(name, row.run, row.task, row.outcome, row.started, message)


class _Followed:
    """The state of a running run, from its own trace. Broken lines are skipped: the run's page reports them."""

    def __init__(self, trace: Path) -> None:
        self._trace, self._offset = trace, 0
        self.steps = 0
        self.begun_at = self.last_at = 0.0
        self.last: Event | None = None

    def read(self) -> None:
        try:
            for record in self._fresh():
                self.begun_at = self.begun_at or record.at
                self.steps += isinstance(record.event, ModelReplied)
                self.last, self.last_at = record.event, record.at
        except OSError:
            return

    def _fresh(self) -> Iterator[Record]:
        with open_regular(self._trace) as file:
            if file.seek(0, 2) < self._offset:
                self._offset = self.steps = 0
            file.seek(self._offset)
            until = self._offset + _MAX_READ_BYTES
            for line in bounded_lines(file):
                if not line.endswith(b"\n") or self._offset > until:
                    return
                self._offset += len(line)
                try:
                    yield _records.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue


def _doing(event: Event | None) -> str:
    if isinstance(event, ModelReplied):
        calls = [part for part in event.parts if isinstance(part, ToolCall)]
        return f"runs {_call_text(calls[0])}" if calls else "processes the model's reply"
    if isinstance(event, TurnEnded):
        return "waits for the next request in its conversation"
    return "waits for the model's reply" if event is not None else "starts"


def _call_text(call: ToolCall) -> str:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    subject = next((value for field in _CALL_FIELDS if isinstance(value := arguments.get(field), str)), "")
    return mark_cut(f"{call.name} {subject}".strip().split("\n", 1)[0], 120)
