"""Steps and frames of a run, read in one pass with one step in memory, for traces of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.messages import ToolCall, Usage
from stackmem.core.network import search_usd
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.pricing import Price, reply_usd

from .record import Record


class Step(Struct, frozen=True):
    """One reply of the model and what followed it."""

    number: int  # from 1
    seq: int  # number of the reply's record
    at: float  # when it came, in seconds since 1970, UTC
    frame: str  # id of the running frame
    name: str
    depth: int
    reply: facts.ModelReplied
    usd: float | None  # its cost; None if the price is unknown
    followed: tuple[facts.Event, ...] = ()  # the events after it, up to the next reply or the end

    @property
    def call(self) -> ToolCall | None:
        """The call that the reply makes."""
        return next((part for part in self.reply.parts if isinstance(part, ToolCall)), None)


class FrameSpan(Struct, frozen=True):
    """One frame from its push to its pop."""

    id: str
    name: str
    parent: str  # id of the frame that pushed it; empty for the root
    depth: int
    intent: str
    return_spec: str
    # first, last: its own first and last step; 0 if it had none
    first: int = 0
    last: int = 0
    # its own steps, without those of its children; usage and cost likewise, including the summaries of its conversation
    steps: int = 0
    usage: Usage = Usage()
    usd: float | None = None
    popped: bool = False  # whether it has ended
    result: str = ""
    # forced, verified: as in ``FramePopped``
    forced: str = ""
    verified: str = ""


class _Fold:
    """The result of the events so far: price, stack and frames."""

    def __init__(self) -> None:
        self.price: Price | None = None
        self.stack: list[str] = []
        self.frames: dict[str, FrameSpan] = {}
        self.steps = 0

    def take(self, event: facts.Event) -> None:
        match event:
            case facts.RunStarted() | facts.RunForked():
                start = event.start if isinstance(event, facts.RunForked) else event
                self.price = start.price
                if isinstance(event, facts.RunStarted):
                    self.stack = ["frame-0"]
                    self.frames = {"frame-0": FrameSpan("frame-0", "root", "", 0, start.task, "")}
            case facts.RunResumed() if event.answerer is not UNSET:
                self.price = event.answerer.price
            case facts.FramePushed():
                parent = self.stack[-1] if self.stack else ""
                span = FrameSpan(event.frame, event.name, parent, len(self.stack), event.intent, event.return_spec)
                self.frames[event.frame] = span
                self.stack.append(event.frame)
            case facts.FramePopped():
                ended = self.frames.get(event.frame)
                if ended is not None:
                    self.frames[event.frame] = replace(
                        ended, popped=True, result=event.result, forced=event.forced, verified=event.verified
                    )
                self.stack = self.stack[:-1]
            case facts.ModelReplied():
                self.steps += 1
                self._replied(event)
            case facts.ContextCompacted():
                self._paid(event)

    def _replied(self, event: facts.ModelReplied) -> None:
        span = self.running
        if span is None:
            return
        self.frames[span.id] = replace(span, first=span.first or self.steps, last=self.steps, steps=span.steps + 1)
        self._paid(event)

    def _paid(self, event: facts.ModelReplied | facts.ContextCompacted) -> None:
        span = self.running
        if span is None:
            return
        cost = self.cost(event)
        usd = None if cost is None else (span.usd or 0.0) + cost
        self.frames[span.id] = replace(span, usage=span.usage + event.usage, usd=usd)

    @property
    def running(self) -> FrameSpan | None:
        return self.frames.get(self.stack[-1]) if self.stack else None

    def cost(self, event: facts.ModelReplied | facts.ContextCompacted) -> float | None:
        return reply_usd(event.usage, self.price, event.answerer)


def steps(records: Iterable[Record]) -> Iterator[Step]:
    """Yield every step, each after all records that follow it were read."""
    fold, step, followed = _Fold(), None, list[facts.Event]()
    for record in records:
        event = record.event
        frame = fold.running
        fold.take(event)
        if not isinstance(event, facts.ModelReplied):
            followed.append(event)
            continue
        if step is not None:
            yield replace(step, followed=tuple(followed))
        followed = []
        location = (frame.id, frame.name, frame.depth) if frame else ("", "", 0)
        step = Step(fold.steps, record.seq, record.at, *location, event, fold.cost(event))
        fold.frames = {name: fold.frames[name] for name in fold.stack if name in fold.frames}  # the others have ended
    if step is not None:
        yield replace(step, followed=tuple(followed))


def frame_spans(records: Iterable[Record]) -> tuple[FrameSpan, ...]:
    """Return every frame in the order of their pushes, the root first."""
    fold = _Fold()
    for record in records:
        fold.take(record.event)
    return tuple(fold.frames.values())


def total_usd(records: Iterable[Record]) -> float | None:
    """Return the cost of all replies, summaries and searches, with those of parallel frames, at the recorded prices.
    None if any has no price.
    """
    fold, total = _Fold(), 0.0
    returned: dict[str, FrameReturned] = {}  # the last of each frame counts, because a resume may continue a frame
    for record in records:
        fold.take(record.event)
        if isinstance(record.event, facts.ModelReplied | facts.ContextCompacted):
            cost = fold.cost(record.event)
            if cost is None:
                return None
            total += cost
        elif isinstance(record.event, facts.ToolReturned) and record.event.search is not UNSET:
            cost = search_usd(record.event.search, fold.price)
            if cost is None:
                return None
            total += cost
        elif isinstance(record.event, FrameReturned):
            returned[record.event.frame] = record.event
        fold.frames = {}
    if any(each.unpriced for each in returned.values()):
        return None
    total += sum(each.usd for each in returned.values())
    return total if fold.price or fold.steps else None
