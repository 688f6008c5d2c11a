"""Two runs side by side: under what they ran, where they part, and what each came to.

Rule 1: facts are compared as ``comparison.py`` says; clock readings part nothing.
Rule 2: neither does where a run was interrupted, resumed or forked; that changes what comes then, or it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.heap import Heap
from stackmem.core.messages import Usage
from stackmem.core.state import State
from stackmem.errors import TraceError

from .comparison import FactComparison, without_counts
from .difference import brief, field_diff
from .imported import imported_from, shown_strategy, stated_by_recording
from .lineage import HISTORY
from .open_run import Run
from .record import Record
from .snapshot import FileChange
from .walk import state_after

SIDES = ("A", "B")


class Side(Struct, frozen=True):
    """What one run came to."""

    run: str
    task: str
    model: str
    strategy: str
    outcome: str
    ending: str
    steps: int
    frames: int  # frames pushed
    usage: Usage
    usd: float | None  # none where the price is unknown
    peak_context_tokens: int  # the largest prompt, as the model counted it
    # heap_chars, heap_chunks: at the end
    heap_chars: int
    heap_chunks: int
    result: str
    forked: str = ""  # ``PARENT at record N``, empty for a run that stands alone


class FactPlace(Struct, frozen=True):
    """Where one run stands: the record, the step it belongs to, the running frame, and what happened there in short."""

    seq: int
    step: int
    frame: str
    event: str = ""


class Parting(Struct, frozen=True):
    """The first fact that is not the same in both."""

    # a, b: none where that run has ended before
    a: FactPlace | None
    b: FactPlace | None
    fields: str = ""  # what differs in two facts of one kind, line by line; empty for two kinds


class ChunkDiff(Struct, frozen=True):
    """A chunk that is not the same at both ends; None where a heap has none of that name."""

    name: str
    a_chars: int | None
    b_chars: int | None


class RunDiff(Struct, frozen=True):
    """Two runs compared."""

    a: Side
    b: Side
    conditions: str  # how their starts differ, field by field; empty where they do not
    same_facts: int  # facts that are equal in both before they part
    parting: Parting | None  # none where they never part
    equal: bool  # they never part
    # kinds of volatile words that differ in what is the same otherwise: facts, chunks and files
    differs_only_in: tuple[str, ...]
    heap: tuple[ChunkDiff, ...]  # chunks that differ at the end
    files: tuple[FileChange, ...]  # files that differ at the end, from A to B
    files_missing: str = ""  # why ``files`` cannot be told; empty where they are


class _Reading:
    """One run while it is read."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = State()
        self.peak = 0
        self.forked = ""
        self.begun: facts.RunStarted | None = None
        self._at = self._ended_at = (0, "")

    def counted(self) -> Iterator[tuple[facts.Event, FactPlace]]:
        """The facts that count, each with its place; the whole run has been read once they end."""
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
                self.begun = event
            case facts.RunForked():
                self.begun = event.start
                self.forked = f"{event.parent} at record {event.at}"
            case facts.ModelReplied() | facts.ContextCompacted():
                self.peak = max(self.peak, event.usage.prompt)

    def side(self) -> Side:
        state, start = self.state, self.state.begun
        stated = stated_by_recording(self.run.folder) if imported_from(start) else None
        return Side(
            run=self.run.id,
            task=start.task_name,
            model=start.model,
            strategy=shown_strategy(start, stated),
            outcome=state.outcome,
            ending=state.end.ending if state.end else "",
            steps=state.step,
            frames=state.pushes,
            usage=state.usage,
            usd=stated.recorded_usd if stated is not None and state.cost_usd is None else state.cost_usd,
            peak_context_tokens=self.peak,
            heap_chars=state.heap.chars,
            heap_chunks=len(state.heap.chunks),
            result=state.end.result if state.end else "",
            forked=self.forked,
        )


def diff_runs(a: Run, b: Run) -> RunDiff:
    """Compare two runs."""
    one, other = _Reading(a), _Reading(b)
    comparison = FactComparison((a.folder / HISTORY, b.folder / HISTORY))
    parting, same = None, 0
    for left, right in zip_longest(one.counted(), other.counted()):
        if parting is None:
            parting = _parting(left, right, comparison)
            same += parting is None
    if one.begun is None or other.begun is None:
        raise TraceError("a run without a start cannot be compared; stackmem replay tells what is wrong with it")
    heap = _chunks(one.state.heap, other.state.heap, comparison)
    files, missing = _files(one, other, comparison)
    return RunDiff(
        a=one.side(),
        b=other.side(),
        conditions=field_diff(replace(one.begun, version=""), replace(other.begun, version=""), sides=SIDES),
        same_facts=same,
        parting=parting,
        equal=parting is None,
        differs_only_in=comparison.differs_only_in,
        heap=heap,
        files=files,
        files_missing=missing,
    )


def counted_records(records: Iterable[Record]) -> Iterator[Record]:
    """The records whose facts can part two runs; an end that was taken back did not happen."""
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
    one, other = without_counts(left[0]), without_counts(right[0])
    return Parting(a, b, field_diff(one, other, sides=SIDES) if type(one) is type(other) else "")


def _chunks(a: Heap, b: Heap, comparison: FactComparison) -> tuple[ChunkDiff, ...]:
    differing = []
    for name in dict.fromkeys([*a.chunks, *b.chunks]):
        one, other = a.chunks.get(name), b.chunks.get(name)
        if one is None or other is None or not comparison.equal_text(one.content, other.content):
            differing.append(ChunkDiff(name, len(one.content) if one else None, len(other.content) if other else None))
    return tuple(differing)


def _files(one: _Reading, other: _Reading, comparison: FactComparison) -> tuple[tuple[FileChange, ...], str]:
    missing: list[Literal["A", "B"]] = []
    if not one.state.tree:
        missing.append("A")
    if not other.state.tree:
        missing.append("B")
    if missing:
        return (), f"{' and '.join(missing)} kept no files"
    try:
        return tuple(comparison.changed_files(one.run.snapshot(one.state), other.run.snapshot(other.state))), ""
    except TraceError as error:
        return (), str(error)
