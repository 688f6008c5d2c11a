"""Split a trace into countable parts: attempts at the model, calls, frames, and notices of the harness.

Every export is a fold over one of the two sequences here. Times come from the records. If the clock was set back during
a run, a record gets the time of the previous one, so that nothing ends before it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.declarations import VoiceKind
from stackmem.core.messages import ToolCall
from stackmem.core.parallel.facts import ParallelEvent
from stackmem.core.state import Frame, Notice, Result
from stackmem.review.measure.moments import Moment, moments, no_view
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import Completions, sources_of
from stackmem.trace.record import Record

OfCalls = (
    facts.ToolReturned | facts.VerifyReturned | facts.SourcesDigested | facts.FramePushed | facts.FramePopped
    | facts.ChunkAllocated | facts.ChunkRead | facts.ChunkWritten | facts.ChunkFreed | facts.CallAnswered
    | facts.CallRejected | ParallelEvent
)  # fmt: skip

HIDDEN: frozenset[VoiceKind] = frozenset(
    {"internal", "run", "reply", "result", "memory", "frame", "verdict", "user", "program"}
)
"""Kinds that exports write in other forms: as replies, calls, frames and scores."""


class AttemptSlice(Struct, frozen=True):
    """One attempt at the model, from ``moment.since`` to ``moment.at``."""

    moment: Moment
    event: facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted  # its outcome, from the moment
    step: int  # the number of the reply; for failures and summaries, of the next reply

    @property
    def usd(self) -> float | None:
        """The cost; None if the price is unknown."""
        return added_usd(self.moment)


class CallSlice(Struct):
    """One call of a reply with its outcome."""

    id: str
    call: ToolCall
    position: int  # in the reply, from 0; ``id`` is made unique within the reply
    frame: Frame
    step: int
    started: float
    ended: float
    # The answer to the model; None for the call that popped the frame, or without an answer.
    result: Result | None = None
    facts: tuple[OfCalls, ...] = ()  # the events caused by the call, oldest first
    opened: str = ""  # the id of the frame that it pushed


class FrameSlice(Struct):
    """A frame from its push to its pop; the root lasts until the end of the trace.

    ``popped`` is None if it was still open then.
    """

    frame: Frame
    start: facts.RunStarted
    started: float
    ended: float
    push: CallSlice | None = None
    popped: facts.FramePopped | None = None


Slice = AttemptSlice | CallSlice | FrameSlice | Moment


def walk(records: Iterable[Record]) -> Iterator[Moment]:
    """Yield every record with the states before and after it.

    Raise TraceError if the first record does not start a run, records are out of sequence, or the program's language or
    a source is missing.

    Args:
        records: Only a ``RunReader`` knows the sources of a program. Other records are walked without a ``view``.
    """
    find_view = Completions(sources_of(records.folder)).take if isinstance(records, RunReader) else no_view
    return moments(_forward(records), find_view)


def _forward(records: Iterable[Record]) -> Iterator[tuple[float, facts.Event]]:
    """Yield the events with times that never decrease."""
    latest = 0.0
    for record in records:
        latest = max(record.at, latest)
        yield latest, record.event


def new_texts(moment: Moment) -> tuple[Result | Notice, ...]:
    """Return the texts that the moment adds for the model of the frame that runs next."""
    return tuple(turn for turn in moment.new_turns if isinstance(turn, Result | Notice))


class SliceBook(Protocol):
    """Records each kind of slice."""

    def attempt(self, piece: AttemptSlice) -> None: ...
    def call(self, piece: CallSlice) -> None: ...
    def scope(self, piece: FrameSlice) -> None: ...
    def moment(self, piece: Moment) -> None: ...
    def noted(self, moment: Moment) -> None:
        """Receive each moment before the slices that it ends."""
        ...


def write_slices(records: Iterable[Record], book: SliceBook) -> None:
    """Pass a whole run to a book."""

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
    """Yield attempts, calls and frames as they end, innermost first, and all other moments unchanged."""
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
                pending = _requested_calls(moment, reply, step)
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
    """Return the cost of a reply or summary; None if its price is unknown."""
    before, after = moment.before, moment.after
    return None if after.unpriced > before.unpriced else after.usd - before.usd


def call_ids(calls: Iterable[ToolCall]) -> list[str]:
    """Return a unique id for each call of a reply, which is the model's own if possible."""
    ids: list[str] = []
    for position, call in enumerate(calls):
        fresh = call.id if call.id and call.id not in ids else f"{call.id or 'call'}#{position}"
        while fresh in ids:
            fresh += "'"
        ids.append(fresh)
    return ids


def _requested_calls(moment: Moment, reply: facts.ModelReplied, step: int) -> list[CallSlice]:
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    calls_by_id = zip(call_ids(calls), calls, strict=True)
    return [
        CallSlice(name, call, position, moment.frame, step, moment.at, moment.at)
        for position, (name, call) in enumerate(calls_by_id)
    ]


def _came(moment: Moment, event: OfCalls, pending: list[CallSlice]) -> Iterator[Slice]:
    """Apply a fact to the pending calls: it answers some, refuses all, or is an intermediate step."""
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
    else:  # an event without effect, because the push call is missing
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
    if not open_frames:  # the root stays open until the end of the trace, because the checks are still to come
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
    """Yield the unfinished slices at the end of the trace, starting with the running frame, and finally the root."""
    yield from _ended(pending, at)
    for scope in reversed(open_frames):
        scope.ended = max(at, scope.started)
        yield scope
        if scope.push is not None:
            scope.push.ended = scope.ended
            yield scope.push
