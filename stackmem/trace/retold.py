"""A run's records, each with what had been asked when it was recorded: by the rules, or by the run's program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from stackmem.core.facts import RunForked, RunResumed
from stackmem.core.machine import advance
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import Effect, answered
from stackmem.core.state import State
from stackmem.languages.program import ProgramDecider
from stackmem.memory import open_strategy

from .moments import following
from .program import TextOf, program_of
from .record import Record


class Retold(Struct, frozen=True):
    """One record.

    Attributes:
        before: The state that it was recorded in.
        asked: What it answers; None where it answers nothing.

    """

    record: Record
    before: State
    asked: Effect | None


def retold(records: Iterable[Record], text_of: TextOf) -> Iterator[Retold]:
    """Every record in its order; a program's interpreter is run again beside them.

    Raises:
        TraceError: The records do not follow one another, or a source is gone.

    """
    state, program = State(), None
    for record in records:
        yield Retold(record, state, None if state.end is not None else _asked(state, program, record))
        state, program = _after(state, program, record, text_of)


def program_at(records: Iterable[Record], text_of: TextOf, seq: int) -> ProgramDecider | None:
    """The program as it stands before record ``seq``; None where none had begun. Raises as ``retold`` does."""
    state, program = State(), None
    for record in records:
        if record.seq >= seq:
            break
        _asked(state, program, record)
        state, program = _after(state, program, record, text_of)
    return program


def _after(
    state: State, program: ProgramDecider | None, record: Record, text_of: TextOf
) -> tuple[State, ProgramDecider | None]:
    event, after = record.event, following(state, record)
    if program is not None:
        program.note(event, after)
    elif isinstance(event, ProgramStarted):
        program = program_of(event, after.begun, open_strategy(after.begun.strategy), text_of)
    return after, program


def _asked(state: State, program: ProgramDecider | None, record: Record) -> Effect | None:
    event = record.event
    if state.start is None or isinstance(event, RunResumed | RunForked | ProgramStarted):
        return None
    if program is not None:
        upcoming = program.decide(state)
    else:
        upcoming = advance(state, open_strategy(state.begun.strategy)) if state.stack else None
    return answered(upcoming, event) if isinstance(upcoming, Effect) else None
