"""A run's records, each with what had been asked when it was recorded: by the rules, or by the run's program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from stackmem.core.facts import RunForked, RunResumed
from stackmem.core.machine import advance
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.languages.course import Asked, Course, Outside
from stackmem.memory import open_strategy

from .moments import following
from .program import TextOf, course_of
from .program_replay import answers
from .record import Record


class Retold(Struct, frozen=True):
    """One record.

    Attributes:
        before: The state that it was recorded in.
        asked: What it answers; None where it answers nothing.

    """

    record: Record
    before: State
    asked: Effect | Asked | None


def retold(records: Iterable[Record], text_of: TextOf) -> Iterator[Retold]:
    """Every record in its order; a program's interpreter is run again beside them.

    Raises:
        TraceError: The records do not follow one another, or a source is gone.

    """
    state, course = State(), None
    for record in records:
        yield Retold(record, state, None if state.end is not None else _asked(state, course, record))
        state, course = _after(state, course, record, text_of)


def course_at(records: Iterable[Record], text_of: TextOf, seq: int) -> Course | None:
    """The program as it stands before record ``seq``; None where none had begun. Raises as ``retold`` does."""
    state, course = State(), None
    for record in records:
        if record.seq >= seq:
            break
        _asked(state, course, record)
        state, course = _after(state, course, record, text_of)
    return course


def _after(state: State, course: Course | None, record: Record, text_of: TextOf) -> tuple[State, Course | None]:
    event, after = record.event, following(state, record)
    if course is not None:
        course.saw(event, after)
    elif isinstance(event, ProgramStarted):
        course = course_of(event, after.begun, open_strategy(after.begun.strategy), text_of)
    return after, course


def _asked(state: State, course: Course | None, record: Record) -> Effect | Asked | None:
    event = record.event
    if state.start is None or isinstance(event, RunResumed | RunForked | ProgramStarted):
        return None
    if course is not None:
        upcoming = course.upcoming(state)
    else:
        upcoming = advance(state, open_strategy(state.begun.strategy)) if state.stack else None
    if isinstance(upcoming, Outside):
        return next((effect for branch, effect in upcoming.asked if answers(branch, effect, event)), None)
    return upcoming if isinstance(upcoming, Effect) else None
