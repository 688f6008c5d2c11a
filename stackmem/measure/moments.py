"""A run as moments: each event with its time and the states around it. What every fold of this package reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from stackmem.core.facts import (
    ChecksReturned,
    ContextCompacted,
    Event,
    ModelFailed,
    ModelReplied,
    RunForked,
    RunResumed,
    RunStarted,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.machine import evolve
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.errors import TraceError

Spender = Literal["model", "tools", "harness", "away"]


class Moment(Struct, frozen=True):
    """One event of a run.

    Attributes:
        number: Of its record, counted from 1 over the whole history.
        at: When it was recorded, in seconds since 1970.
        seconds: Since the record before it; 0.0 for the first, and where the clock went back.
        view: The prompt that the event answers, where a program asked for it or somebody rendered it; None elsewhere.

    """

    number: int
    at: float
    seconds: float
    event: Event
    before: State
    after: State
    view: View | None = None

    @property
    def spender(self) -> Spender:
        """What the seconds before the record went to; ``away`` where nobody worked on the run."""
        match self.event:
            case ModelReplied() | ModelFailed() | ContextCompacted():
                return "model"
            case ToolReturned() | VerifyReturned() | SourcesDigested() | ChecksReturned():
                return "tools"
            case RunResumed() | RunForked():
                return "away"
            case _:
                return "harness"


def unasked(event: Event, before: State, after: State) -> View | None:
    """No prompt is a program's."""
    return None


def moments(
    timed: Iterable[tuple[float, Event]], asked: Callable[[Event, State, State], View | None] = unasked
) -> Iterator[Moment]:
    """The moments of a run, given each event with the time of its record, oldest first.

    Args:
        asked: The prompt that an event answers, where a program asked for it; told of every event and the states
            around it.

    Raises:
        TraceError: The events cannot have been recorded by a run in this order; names the record.

    """
    state, last = State(), None
    for number, (at, event) in enumerate(timed, 1):
        if (number == 1) != isinstance(event, RunStarted):
            first = "the first record is not RunStarted" if number == 1 else f"record {number} is a second RunStarted"
            raise TraceError(f"{first}; this is no trace of a run")
        try:
            after = evolve(state, event)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise TraceError(
                f"record {number} cannot follow from those before it; stackmem replay says what should stand there"
            ) from error
        yield Moment(
            number,
            at,
            max(0.0, at - last) if last is not None else 0.0,
            event,
            state,
            after,
            asked(event, state, after),
        )
        state, last = after, at
