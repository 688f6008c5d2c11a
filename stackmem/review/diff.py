"""Compares two runs: their conditions, the first difference, and their outcomes.

Rule 1: Facts are compared as described in ``comparison.py``; clock readings never count as a difference.
Rule 2: Interruptions, resumes and forks do not count either, only their effects on later facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.errors import TraceError
from stackmem.core.heap import Heap
from stackmem.core.messages import Usage
from stackmem.core.state import State
from stackmem.run.run_folder import TRACE
from stackmem.trace.difference import brief, field_diff
from stackmem.trace.imported import imported_from, shown_strategy, stated_by_recording
from stackmem.trace.lineage import HISTORY
from stackmem.trace.lock import current_outcome
from stackmem.trace.open_run import Run
from stackmem.trace.record import Record
from stackmem.trace.snapshot import FileChange
from stackmem.trace.walk import state_after

from .comparison import FactComparison, without_counts

SIDES = ("A", "B")


class Side(Struct, frozen=True):
    """The outcome of one run."""

    run: str
    task: str
    model: str
    strategy: str
    outcome: str
    ending: str
    steps: int
    frames: int  # number of pushes
    usage: Usage
    usd: float | None  # None if the price is unknown
    peak_context_tokens: int  # the largest prompt, as counted by the model
    # heap_chars, heap_chunks: at the end
    heap_chars: int
    heap_chunks: int
    result: str
    forked: str = ""  # ``PARENT at record N``; empty if the run is not a fork


class FactPlace(Struct, frozen=True):
    """A position in one run: the record, its step, the running frame, and a short form of the event."""

    seq: int
    step: int
    frame: str
    event: str = ""


class Parting(Struct, frozen=True):
    """The first facts that differ."""

    # a, b: None if that run had already ended
    a: FactPlace | None
    b: FactPlace | None
    fields: str = ""  # the differences between two facts of the same kind, line by line; empty for different kinds


class ChunkDiff(Struct, frozen=True):
    """A chunk that differs at the end. None means that this heap has no chunk of that name."""

    name: str
    a_chars: int | None
    b_chars: int | None


class RunDiff(Struct, frozen=True):
    """Two runs compared."""

    a: Side
    b: Side
    conditions: str  # how their starts differ, field by field; empty if they do not
    same_facts: int  # number of equal facts before the first difference
    parting: Parting | None  # None if the runs do not differ
    equal: bool  # whether the runs do not differ
    # kinds of volatile words that differ in otherwise equal facts, chunks and files
    differs_only_in: tuple[str, ...]
    heap: tuple[ChunkDiff, ...]  # chunks that differ at the end
    files: tuple[FileChange, ...]  # files that differ at the end, from A to B
    files_missing: str = ""  # why ``files`` is not known; otherwise empty


class _Reading:
    """One run while it is read."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = State()
        self.peak = 0
        self.forked = ""
        self.start: facts.RunStarted | None = None
        self._at = self._ended_at = (0, "")

    def counted(self) -> Iterator[tuple[facts.Event, FactPlace]]:
        """Yield the facts to compare, each with its position. The whole run has been read at the end."""
        for record in counted_records(self._folded()):
            step, frame = self._ended_at if isinstance(record.event, facts.RunEnded) else self._at
            yield record.event, FactPlace(record.seq, step, frame)

    def _folded(self) -> Iterator[Record]:
        for record in self.run.records():
            frame = self.state.running.name if self.state.stack else ""
            self.state = state_after(self.state, record)
            self._note(record.event)
            self._at = self.state.step, frame
            if isinstance(record.event, facts.RunEnded):
                self._ended_at = self._at
            yield record

    def _note(self, event: facts.Event) -> None:
        match event:
            case facts.RunStarted():
                self.start = event
            case facts.RunForked():
                self.start = event.start
                self.forked = f"{event.parent} at record {event.at}"
            case facts.ModelReplied() | facts.ContextCompacted():
                self.peak = max(self.peak, event.usage.prompt)

    def side(self) -> Side:
        state, start = self.state, self.state.begun
        statement = stated_by_recording(self.run.folder) if imported_from(start) else None
        return Side(
            run=self.run.id,
            task=start.task_name,
            model=start.model,
            strategy=shown_strategy(start, statement),
            outcome=current_outcome(self.run.folder / TRACE, state.outcome),
            ending=state.end.ending if state.end else "",
            steps=state.step,
            frames=state.pushes,
            usage=state.usage,
            usd=statement.recorded_usd if statement is not None and state.cost_usd is None else state.cost_usd,
            peak_context_tokens=self.peak,
            heap_chars=state.heap.chars,
            heap_chunks=len(state.heap.chunks),
            result=state.end.result if state.end else "",
            forked=self.forked,
        )


def diff_runs(a: Run, b: Run) -> RunDiff:
    """Compare two runs. Raise TraceError if a run has no start."""
    reading_a, reading_b = _Reading(a), _Reading(b)
    comparison = FactComparison((a.folder / HISTORY, b.folder / HISTORY))
    parting, equal_count = None, 0
    for left, right in zip_longest(reading_a.counted(), reading_b.counted()):
        if parting is None:
            parting = _parting(left, right, comparison)
            equal_count += parting is None
    if reading_a.start is None or reading_b.start is None:
        raise TraceError("a run without a start cannot be compared; stackmem replay shows what is wrong with it")
    heap = _chunks(reading_a.state.heap, reading_b.state.heap, comparison)
    files, missing = _files(reading_a, reading_b, comparison)
    return RunDiff(
        a=reading_a.side(),
        b=reading_b.side(),
        conditions=field_diff(replace(reading_a.start, version=""), replace(reading_b.start, version=""), sides=SIDES),
        same_facts=equal_count,
        parting=parting,
        equal=parting is None,
        differs_only_in=comparison.differs_only_in,
        heap=heap,
        files=files,
        files_missing=missing,
    )


def counted_records(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records whose facts are compared. An ending that was withdrawn by a resume is left out."""
    ended: Record | None = None
    for record in records:
        if isinstance(record.event, facts.RunResumed):
            ended = None
        if isinstance(record.event, facts.RunStarted | facts.RunResumed | facts.RunForked | facts.ClockRead):
            continue
        if ended is not None:
            yield ended
            ended = None
        if isinstance(record.event, facts.RunEnded):
            ended = record
        else:
            yield record
    if ended is not None:
        yield ended


Fact = tuple[facts.Event, FactPlace] | None


def _parting(left: Fact, right: Fact, comparison: FactComparison) -> Parting | None:
    a, b = (replace(side[1], event=brief(without_counts(side[0]))) if side else None for side in (left, right))
    if left is None or right is None:
        return Parting(a, b)
    if comparison.equal(left[0], right[0]):
        return None
    event, other = without_counts(left[0]), without_counts(right[0])
    return Parting(a, b, field_diff(event, other, sides=SIDES) if type(event) is type(other) else "")


def _chunks(a: Heap, b: Heap, comparison: FactComparison) -> tuple[ChunkDiff, ...]:
    differing = []
    for name in dict.fromkeys([*a.chunks, *b.chunks]):
        chunk_a, chunk_b = a.chunks.get(name), b.chunks.get(name)
        if chunk_a is None or chunk_b is None or not comparison.equal_text(chunk_a.content, chunk_b.content):
            differing.append(
                ChunkDiff(name, len(chunk_a.content) if chunk_a else None, len(chunk_b.content) if chunk_b else None)
            )
    return tuple(differing)


def _files(reading_a: _Reading, reading_b: _Reading, comparison: FactComparison) -> tuple[tuple[FileChange, ...], str]:
    missing: list[Literal["A", "B"]] = []
    if not reading_a.state.tree:
        missing.append("A")
    if not reading_b.state.tree:
        missing.append("B")
    if missing:
        return (), f"{' and '.join(missing)} stored no files"
    try:
        return tuple(
            comparison.changed_files(reading_a.run.snapshot(reading_a.state), reading_b.run.snapshot(reading_b.state))
        ), ""
    except TraceError as error:
        return (), str(error)
