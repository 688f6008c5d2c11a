"""Two runs side by side: under what they ran, where they part, and what each came to.

Rule 1: times do not part two runs, nor what only tells of them: clock readings, providers' names for replies, counts of
    tokens, what checks printed, and the digest of a prompt, which follows from all before it.
Rule 2: neither does where a run was interrupted, resumed or forked; that changes what comes then, or it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Event,
    ModelFailed,
    ModelReplied,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
)
from stackmem.core.heap import Heap
from stackmem.core.messages import Usage
from stackmem.core.state import State
from stackmem.errors import TraceError

from .difference import brief, field_diff
from .moments import following
from .open_run import Run
from .record import Record
from .snapshot import FileChange, changes

SIDES = ("A", "B")


class Side(Struct, frozen=True):
    """What one run came to.

    Attributes:
        frames: Frames pushed.
        usd: None where the price is unknown.
        peak_context_tokens: The largest prompt, as the model counted it.
        forked: ``PARENT at record N``, empty for a run that stands alone.
        heap_chars, heap_chunks: At the end.

    """

    run: str
    task: str
    model: str
    strategy: str
    outcome: str
    ending: str
    steps: int
    frames: int
    usage: Usage
    usd: float | None
    peak_context_tokens: int
    heap_chars: int
    heap_chunks: int
    result: str
    forked: str = ""


class Place(Struct, frozen=True):
    """Where one run stands: the record, the step it belongs to, the running frame, and what happened there in short."""

    seq: int
    step: int
    frame: str
    event: str


class Parting(Struct, frozen=True):
    """The first fact that is not the same in both.

    Attributes:
        a, b: None where that run has ended before.
        fields: What differs in two facts of one kind, line by line; empty for two kinds.

    """

    a: Place | None
    b: Place | None
    fields: str = ""


class ChunkDiff(Struct, frozen=True):
    """A chunk that is not the same at both ends; None where a heap has none of that name."""

    name: str
    a_chars: int | None
    b_chars: int | None


class RunDiff(Struct, frozen=True):
    """Two runs compared.

    Attributes:
        conditions: How their starts differ, field by field; empty where they do not.
        same_facts: Facts that are equal in both before they part.
        parting: None where they never part.
        heap: Chunks that differ at the end.
        files: Files that differ at the end, from A to B.
        files_missing: Why ``files`` cannot be told; empty where they are.

    """

    a: Side
    b: Side
    conditions: str
    same_facts: int
    parting: Parting | None
    heap: tuple[ChunkDiff, ...]
    files: tuple[FileChange, ...]
    files_missing: str = ""


class _Reading:
    """One run while it is read."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = State()
        self.peak = 0
        self.forked = ""
        self.begun: RunStarted | None = None

    def facts(self) -> Iterator[tuple[Event, Place, Record]]:
        """The facts that count, each with its place; the whole run has been read once they end."""
        ended: tuple[Event, Place, Record] | None = None
        for record in self.run.records():
            event = record.event
            frame = self.state.running.name if self.state.stack else ""
            self.state = following(self.state, record)
            self._note(event)
            if isinstance(event, RunResumed):
                ended = None  # what was taken back did not happen
            if isinstance(event, RunStarted | RunResumed | RunForked | ClockRead):
                continue
            if ended is not None:
                yield ended
                ended = None
            place = Place(record.seq, self.state.step, frame, brief(counted(event)))
            if isinstance(event, RunEnded):
                ended = (counted(event), place, record)
            else:
                yield counted(event), place, record
        if ended is not None:
            yield ended

    def _note(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.begun = event
            case RunForked():
                self.begun = event.start
                self.forked = f"{event.parent} at record {event.at}"
            case ModelReplied() | ContextCompacted():
                self.peak = max(self.peak, event.usage.prompt)
            case _:
                pass

    def side(self) -> Side:
        state, start = self.state, self.state.begun
        return Side(
            run=self.run.id,
            task=start.task_name,
            model=start.model,
            strategy=start.strategy,
            outcome=state.outcome,
            ending=state.end.ending if state.end else "",
            steps=state.step,
            frames=state.pushes,
            usage=state.usage,
            usd=state.cost_usd,
            peak_context_tokens=self.peak,
            heap_chars=state.heap.chars,
            heap_chunks=len(state.heap.chunks),
            result=state.end.result if state.end else "",
            forked=self.forked,
        )


def diff_runs(a: Run, b: Run) -> RunDiff:
    """Compare two runs.

    Raises:
        TraceError: One of the traces is broken.

    """
    one, other = _Reading(a), _Reading(b)
    parting, same = None, 0
    for left, right in zip_longest(one.facts(), other.facts()):
        if parting is None:
            parting = _parting(left, right)
            same += parting is None
    if one.begun is None or other.begun is None:
        raise TraceError("a run without a start cannot be compared; stackmem replay tells what is wrong with it")
    files, missing = _files(one, other)
    return RunDiff(
        a=one.side(),
        b=other.side(),
        conditions=field_diff(replace(one.begun, version=""), replace(other.begun, version=""), sides=SIDES),
        same_facts=same,
        parting=parting,
        heap=_chunks(one.state.heap, other.state.heap),
        files=files,
        files_missing=missing,
    )


Fact = tuple[Event, Place, Record] | None


def _parting(left: Fact, right: Fact) -> Parting | None:
    if left is None or right is None:
        return Parting(left[1] if left else None, right[1] if right else None)
    if left[0] == right[0]:
        return None
    fields = field_diff(left[0], right[0], sides=SIDES) if type(left[0]) is type(right[0]) else ""
    return Parting(left[1], right[1], fields)


def counted(event: Event) -> Event:
    """The event without what is never the same twice."""
    match event:
        case ModelReplied() | ContextCompacted():
            return replace(event, prompt_digest="", reply_id="", usage=Usage())
        case ModelFailed():
            return replace(event, prompt_digest="", retry_after_seconds=None)
        case ChecksReturned():
            return replace(event, text="")
        case _:
            return event


def _chunks(a: Heap, b: Heap) -> tuple[ChunkDiff, ...]:
    found = []
    for name in dict.fromkeys([*a.chunks, *b.chunks]):
        one, other = a.chunks.get(name), b.chunks.get(name)
        if one is None or other is None or one.content != other.content:
            found.append(ChunkDiff(name, len(one.content) if one else None, len(other.content) if other else None))
    return tuple(found)


def _files(one: _Reading, other: _Reading) -> tuple[tuple[FileChange, ...], str]:
    missing: list[Literal["A", "B"]] = []
    if not one.state.tree:
        missing.append("A")
    if not other.state.tree:
        missing.append("B")
    if missing:
        return (), f"{' and '.join(missing)} kept no files"
    try:
        return tuple(changes(one.run.snapshot(one.state), other.run.snapshot(other.state))), ""
    except TraceError as error:
        return (), str(error)
