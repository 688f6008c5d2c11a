"""A trace told as what a reader wants to count: attempts at the model, calls, frames, and what the harness said.

Every export is a fold over one of the two sequences here. Times come from the records; where the clock was set back
during a run, a record counts as written at the time of the one before it, so that nothing ends before it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.messages import ToolCall
from stackmem.core.state import Frame, Notice, Result
from stackmem.measure.moments import Moment, moments, no_view
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import Completions, sources_of
from stackmem.trace.record import Record

OfCalls = (
    facts.ToolReturned | facts.VerifyReturned | facts.SourcesDigested | facts.FramePushed | facts.FramePopped
    | facts.ChunkAllocated | facts.ChunkRead | facts.ChunkWritten | facts.ChunkFreed | facts.CallAnswered
    | facts.CallRejected
)  # fmt: skip


class AttemptSlice(Struct, frozen=True):
    """One attempt at the model, which took from ``moment.since`` to ``moment.at``."""

    moment: Moment
    event: facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted  # what came of it, the moment's
    step: int  # the reply's number, or that of the reply to come: of a failure, and of a summary

    @property
    def usd(self) -> float | None:
        """What it cost; None where the price is not known."""
        return added_usd(self.moment)


class CallSlice(Struct):
    """One call of a reply and what came of it."""

    id: str
    call: ToolCall
    place: int  # its place in the reply, from 0; ``id`` is unique in the reply, whatever the model wrote
    frame: Frame
    step: int
    started: float
    ended: float
    # what the model was told; None for the call that popped the frame, and where nothing came back
    result: Result | None = None
    facts: tuple[OfCalls, ...] = ()  # what happened on its behalf, oldest first
    opened: str = ""  # the id of the frame that it pushed


class FrameSlice(Struct):
    """A frame from its push to its pop, the root to the end of the trace.

    ``popped`` is None where it was still open then.
    """

    frame: Frame
    start: facts.RunStarted
    started: float
    ended: float
    push: CallSlice | None = None
    popped: facts.FramePopped | None = None


Slice = AttemptSlice | CallSlice | FrameSlice | Moment


def walk(records: Iterable[Record]) -> Iterator[Moment]:
    """Every record with the states around it."""
    asked = Completions(sources_of(records.folder)).take if isinstance(records, RunReader) else no_view
    return moments(_forward(records), asked)


def _forward(records: Iterable[Record]) -> Iterator[tuple[float, facts.Event]]:
    """The facts with times that never go back."""
    latest = 0.0
    for record in records:
        latest = max(record.at, latest)
        yield latest, record.event


def new_texts(moment: Moment) -> tuple[Result | Notice, ...]:
    """What the moment told the model of the frame that runs after it."""
    return tuple(turn for turn in moment.new_turns if isinstance(turn, Result | Notice))


class SliceBook(Protocol):
    """What writes down each kind of slice."""

    def attempt(self, piece: AttemptSlice) -> None: ...
    def call(self, piece: CallSlice) -> None: ...
    def scope(self, piece: FrameSlice) -> None: ...
    def moment(self, piece: Moment) -> None: ...
    def noted(self, moment: Moment) -> None:
        """Told of each moment before what it ends."""
        ...


def write_slices(records: Iterable[Record], book: SliceBook) -> None:
    """Tell a book of a whole run."""

    def noted() -> Iterator[Moment]:
        for moment in walk(records):
            book.noted(moment)
            yield moment

    for piece in slices(noted()):
        match piece:
            case AttemptSlice():
                book.attempt(piece)
            case CallSlice():
                book.call(piece)
            case FrameSlice():
                book.scope(piece)
            case Moment():
                book.moment(piece)


def slices(run: Iterable[Moment]) -> Iterator[Slice]:
    """Attempts, calls and frames as they end, innermost first; every other moment as it is."""
    open_frames: list[FrameSlice] = []
    pending: list[CallSlice] = []
    last: Moment | None = None
    for moment in run:
        last = moment
        match moment.event:
            case facts.RunStarted():
                open_frames.append(FrameSlice(moment.frame, moment.event, moment.at, moment.at))
                yield moment
            case facts.RunForked():
                for scope in open_frames:
                    scope.start = moment.event.start
                yield moment
            case facts.ModelReplied() as reply:
                yield from _ended(pending, moment.since)
                step = moment.after.step
                yield AttemptSlice(moment, reply, step)
                pending = _asked(moment, reply, step)
            case facts.ModelFailed() | facts.ContextCompacted() as other:
                yield AttemptSlice(moment, other, moment.before.step + 1)
            case facts.FramePushed():
                yield from _pushed(moment, open_frames, pending)
                pending = []
            case facts.FramePopped():
                yield from _popped(moment, open_frames, pending)
                pending = []
            case event if isinstance(event, OfCalls) and pending:
                yield from _came(moment, event, pending)
                pending = [] if isinstance(event, facts.CallRejected) else pending
            case _:
                if isinstance(moment.event, facts.ReplyNudged):
                    yield from _ended(pending, moment.at)
                    pending = []
                yield moment
    if last is not None:
        yield from _left_open(open_frames, pending, last.at)


def added_usd(moment: Moment) -> float | None:
    """What a reply or a summary cost; None where its price is not known."""
    before, after = moment.before, moment.after
    return None if after.unpriced > before.unpriced else after.usd - before.usd


def call_ids(calls: Iterable[ToolCall]) -> list[str]:
    """An id for each call that no other call of the reply has; the model's own wherever that will do."""
    found: list[str] = []
    for place, call in enumerate(calls):
        fresh = call.id if call.id and call.id not in found else f"{call.id or 'call'}#{place}"
        while fresh in found:
            fresh += "'"
        found.append(fresh)
    return found


def _asked(moment: Moment, reply: facts.ModelReplied, step: int) -> list[CallSlice]:
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    named = zip(call_ids(calls), calls, strict=True)
    return [
        CallSlice(name, call, place, moment.frame, step, moment.at, moment.at)
        for place, (name, call) in enumerate(named)
    ]


def _came(moment: Moment, event: OfCalls, pending: list[CallSlice]) -> Iterator[Slice]:
    """What a fact means for the calls that wait: some are answered, or all are refused, or it is a step on the way."""
    results = [turn for turn in moment.new_turns if isinstance(turn, Result)]
    waiting = pending if isinstance(event, facts.CallRejected) else pending[: max(1, len(results))]
    for call in waiting:
        call.facts = (*call.facts, event)
        call.ended = moment.at
    if not results:
        return
    for call, result in zip(waiting, results, strict=False):
        call.result = result
        yield call
    if not isinstance(event, facts.CallRejected):
        del pending[: len(results)]


def _pushed(moment: Moment, open_frames: list[FrameSlice], pending: list[CallSlice]) -> Iterator[Slice]:
    push = pending[0] if pending else None
    event = moment.event
    if push is not None and isinstance(event, facts.FramePushed):
        push.facts, push.opened = (*push.facts, event), event.frame
    if len(moment.after.stack) > len(moment.before.stack):
        open_frames.append(FrameSlice(moment.after.running, moment.after.begun, moment.at, moment.at, push))
    else:  # a fact that changed nothing: no push call stands behind it
        yield moment
    yield from _ended(pending[1:], moment.at)


def _popped(moment: Moment, open_frames: list[FrameSlice], pending: list[CallSlice]) -> Iterator[Slice]:
    event = moment.event
    for call in pending[:1]:
        if isinstance(event, facts.FramePopped):
            call.facts = (*call.facts, event)
    yield from _ended(pending, moment.at)
    scope = open_frames.pop()
    scope.ended, scope.frame = moment.at, moment.frame
    scope.popped = event if isinstance(event, facts.FramePopped) else None
    if not open_frames:  # the root waits for the end of the trace: the checks are still to come
        open_frames.append(scope)
        return
    yield scope
    if scope.push is not None:
        scope.push.ended = moment.at
        scope.push.result = next((turn for turn in moment.new_turns if isinstance(turn, Result)), None)
        yield scope.push


def _ended(pending: list[CallSlice], at: float) -> Iterator[Slice]:
    for call in pending:
        call.ended = max(at, call.started)
        yield call


def _left_open(open_frames: list[FrameSlice], pending: list[CallSlice], at: float) -> Iterator[Slice]:
    """The root, and before it what the end of the trace found unfinished, the running frame first."""
    yield from _ended(pending, at)
    for scope in reversed(open_frames):
        scope.ended = max(at, scope.started)
        yield scope
        if scope.push is not None:
            scope.push.ended = scope.ended
            yield scope.push
