"""A run as moments: each event with its time and the states before and after it. All folds of this package read
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.errors import TraceError
from stackmem.core.machine import evolve
from stackmem.core.messages import View
from stackmem.core.person_facts import WordsAsked
from stackmem.core.state import Frame, State, Turn

Spender = Literal["model", "tools", "harness", "away"]


class Moment(Struct, frozen=True):
    """One event of a run."""

    seq: int  # number of its record, from 1 over the whole history
    at: float  # when it was recorded, in seconds since 1970
    since: float  # time of the record before it, when the work that led to this one began; for the first, ``at``
    event: facts.Event
    before: State
    after: State
    # the prompt that the event answers, if a program requested it or a caller rendered it; otherwise None
    view: View | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the record before it, or 0.0 if the clock went back."""
        return max(0.0, self.at - self.since)

    @property
    def frame(self) -> Frame:
        """The frame that was running when it happened."""
        stack = self.before.stack or self.after.stack
        return stack[-1] if stack else self.after.popped[-1].frame

    @property
    def new_turns(self) -> Sequence[Turn]:
        """The turns that it added to the conversation of the frame that runs after it."""
        if not self.after.stack:
            return ()
        running = self.after.running
        count = next((len(frame.turns) for frame in self.before.stack if frame.id == running.id), 0)
        return running.turns[count:]

    @property
    def spender(self) -> Spender:
        """The side that used the seconds before the record; ``away`` while the run was stopped."""
        match self.event:
            case facts.ModelReplied() | facts.ModelFailed() | facts.ContextCompacted() | WordsAsked():
                return "model"
            case facts.ToolReturned() | facts.VerifyReturned() | facts.SourcesDigested() | facts.ChecksReturned():
                return "tools"
            case facts.RunResumed() | facts.RunForked():
                return "away"
            case _:
                return "harness"


def begins_request(moment: Moment) -> bool:
    """Return whether the user's next request begins. Each of several sessions in a row begins with one."""
    before, after = moment.before.session, moment.after.session
    return after is not None and after.requests > (before.requests if before is not None else 0)


def no_view(event: facts.Event, before: State, after: State) -> View | None:
    """Return None: only programs supply prompts here."""
    return None


def moments(
    timed: Iterable[tuple[float, facts.Event]], view_of: Callable[[facts.Event, State, State], View | None] = no_view
) -> Iterator[Moment]:
    """Yield the moments of a run, given each event with the time of its record, oldest first.

    Raise TraceError if the events are not a valid run.
    """
    state, last = State(), None
    for seq, (at, event) in enumerate(timed, 1):
        if (seq == 1) != isinstance(event, facts.RunStarted):
            first = "the first record is not RunStarted" if seq == 1 else f"record {seq} is a second RunStarted"
            raise TraceError(f"{first}, so this is not the trace of a run")
        try:
            after = evolve(state, event)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise TraceError(
                f"record {seq} cannot follow the earlier records; stackmem replay shows what should be there"
            ) from error
        yield Moment(seq, at, at if last is None else last, event, state, after, view_of(event, state, after))
        state, last = after, at
