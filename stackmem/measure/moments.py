"""A run as moments: each event with its time and the states around it. What every fold of this package reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.machine import evolve
from stackmem.core.messages import View
from stackmem.core.state import Frame, State, Turn
from stackmem.errors import TraceError

Spender = Literal["model", "tools", "harness", "away"]


class Moment(Struct, frozen=True):
    """One event of a run."""

    seq: int  # number of its record, counted from 1 over the whole history
    at: float  # when it was recorded, in seconds since 1970
    since: float  # when the record before it was, which is when what led to this one began; of the first, ``at``
    event: facts.Event
    before: State
    after: State
    # the prompt that the event answers, where a program asked for it or somebody rendered it; None elsewhere
    view: View | None = None

    @property
    def seconds(self) -> float:
        """Since the record before it; 0.0 where the clock went back."""
        return max(0.0, self.at - self.since)

    @property
    def frame(self) -> Frame:
        """The frame it happened in: the one that was running."""
        stack = self.before.stack or self.after.stack
        return stack[-1] if stack else self.after.popped[-1].frame

    @property
    def new_turns(self) -> Sequence[Turn]:
        """What it added to the conversation of the frame that runs after it."""
        if not self.after.stack:
            return ()
        running = self.after.running
        known = next((len(frame.turns) for frame in self.before.stack if frame.id == running.id), 0)
        return running.turns[known:]

    @property
    def spender(self) -> Spender:
        """What the seconds before the record went to; ``away`` where nobody worked on the run."""
        match self.event:
            case facts.ModelReplied() | facts.ModelFailed() | facts.ContextCompacted():
                return "model"
            case facts.ToolReturned() | facts.VerifyReturned() | facts.SourcesDigested() | facts.ChecksReturned():
                return "tools"
            case facts.RunResumed() | facts.RunForked():
                return "away"
            case _:
                return "harness"


def begins_request(moment: Moment) -> bool:
    """Whether the person's next request begins; of several sessions in a row each begins with one."""
    before, after = moment.before.session, moment.after.session
    return after is not None and after.requests > (before.requests if before is not None else 0)


def no_view(event: facts.Event, before: State, after: State) -> View | None:
    """No prompt is a program's."""
    return None


def moments(
    timed: Iterable[tuple[float, facts.Event]], asked: Callable[[facts.Event, State, State], View | None] = no_view
) -> Iterator[Moment]:
    """The moments of a run, given each event with the time of its record, oldest first."""
    state, last = State(), None
    for seq, (at, event) in enumerate(timed, 1):
        if (seq == 1) != isinstance(event, facts.RunStarted):
            first = "the first record is not RunStarted" if seq == 1 else f"record {seq} is a second RunStarted"
            raise TraceError(f"{first}; this is no trace of a run")
        try:
            after = evolve(state, event)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise TraceError(
                f"record {seq} cannot follow from those before it; stackmem replay says what should stand there"
            ) from error
        yield Moment(seq, at, at if last is None else last, event, state, after, asked(event, state, after))
        state, last = after, at
