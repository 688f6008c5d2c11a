"""The answers that a program's run was given, in their order, and how far another program asks the same."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import (
    ClockRead,
    ContextCompacted,
    Event,
    ModelFailed,
    ModelReplied,
    RunForked,
    RunResumed,
    RunStarted,
)
from stackmem.core.machine import evolve
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import AskModel, Compact, Effect, ReadClock
from stackmem.core.state import State
from stackmem.errors import TraceError
from stackmem.languages.course import Asked, Course, Outside, Upcoming
from stackmem.languages.effects import InvokeTool
from stackmem.memory import open_strategy

from .program import TextOf, course_of
from .program_replay import answers
from .record import Record
from .verify import answers_machine


class Heard(Struct, frozen=True):
    """What was asked, and the fact that answered it.

    Attributes:
        branch: Its place in its group; None where it stands alone.

    """

    asked: Asked | Effect
    event: Event
    branch: int | None = None


class Tape(Struct, frozen=True):
    """A program's run as its answers.

    Attributes:
        start: Of the run, as it was last in force.
        pending: What had been asked and not answered; None where nothing had.

    """

    start: RunStarted
    begun: ProgramStarted
    limits: Limits
    isolation: str
    heard: tuple[Heard, ...]
    pending: Outside | None


def tape_of(records: Iterable[Record], text_of: TextOf, repeatable: frozenset[str]) -> Tape:
    """The answers of a run, without what failed of the provider; of a halt, its last question is left out.

    Args:
        repeatable: Tools that may be called twice.

    Raises:
        TraceError: It is no program's run, or a source is gone.

    """
    state, course, begun = State(), None, None
    heard: list[Heard] = []
    isolation = ""
    for record in records:
        event = record.event
        if course is not None and not isinstance(event, RunResumed | RunForked):
            found = _heard(course.upcoming(state), event)
            heard += [found] if found is not None else []
        halted = _halted(state)
        state = evolve(state, event)
        if isinstance(event, RunResumed | RunStarted):
            isolation = event.isolation
        if course is not None:
            course.saw(event, state)
            if isinstance(event, RunResumed) and halted:
                _forget(heard, course.upcoming(replace(state, clock_fresh=True)), repeatable)
        elif isinstance(event, ProgramStarted):
            begun, course = event, course_of(event, state.begun, open_strategy(state.begun.strategy), text_of)
    if course is None or begun is None:
        raise TraceError("no program had begun in that run; run it anew with stackmem run")
    pending = _pending(course, state, heard, repeatable)  # it may shorten what was heard
    return Tape(state.begun, begun, state.limits, isolation, tuple(heard), pending)


def _halted(state: State) -> bool:
    return state.program is not None and state.program.halted is not None


def _pending(course: Course, state: State, heard: list[Heard], repeatable: frozenset[str]) -> Outside | None:
    if state.end is None:
        upcoming = course.upcoming(replace(state, clock_fresh=True))
        return upcoming if isinstance(upcoming, Outside) else None
    halted = _halted(state)
    again = RunResumed(state.limits, state.begun.isolation, state.begun.version)
    reopened = replace(evolve(state, again), clock_fresh=True)
    course.saw(again, reopened)
    upcoming = course.upcoming(reopened)
    if halted:
        _forget(heard, upcoming, repeatable)
        return None
    return upcoming if isinstance(upcoming, Outside) else None


def _forget(heard: list[Heard], upcoming: Upcoming, repeatable: frozenset[str]) -> None:
    """Take the answers of what is asked again from the end, unless asking again may do harm."""
    asked = [effect for _, effect in upcoming.asked] if isinstance(upcoming, Outside) else []
    while heard and any(_equal(effect, heard[-1]) for effect in asked):
        call = heard[-1].asked
        if isinstance(call, InvokeTool) and call.tool not in repeatable:
            return
        del heard[-1]


def _heard(upcoming: Upcoming, event: Event) -> Heard | None:
    if isinstance(event, ModelFailed) and event.kind != "window":
        return None
    if isinstance(upcoming, Outside):
        found = next((pair for pair in upcoming.asked if answers(*pair, event)), None)
        return None if found is None else Heard(found[1], event, found[0])
    if isinstance(upcoming, Effect) and not isinstance(upcoming, ReadClock) and answers_machine(upcoming, event):
        return Heard(upcoming, event)
    return None


def play_tape(course: Course, opening: tuple[Event, ...], tape: Tape) -> tuple[tuple[Event, ...], State, int]:
    """``(facts, state, answers used)``: the program run against the answers for as long as it asks the same.

    Args:
        opening: The facts that the run begins with.

    """
    state, facts, used = State(), list(opening), 0
    for event in opening:
        state = evolve(state, event)
    while True:
        upcoming = course.upcoming(state)
        if upcoming is None:
            return tuple(facts), state, used
        if isinstance(upcoming, ReadClock):
            event = ClockRead(state.seconds)
        elif isinstance(upcoming, Effect | Outside):
            if used == len(tape.heard) or not _same(upcoming, tape.heard[used]):
                return tuple(facts), state, used
            event = tape.heard[used].event
            used += 1
        else:
            event = upcoming
        state = evolve(state, event)
        course.saw(event, state)
        facts.append(event)


def _same(upcoming: Effect | Outside, heard: Heard) -> bool:
    if isinstance(upcoming, Outside):
        return any(branch == heard.branch and _equal(effect, heard) for branch, effect in upcoming.asked)
    return _equal(upcoming, heard)


def _equal(effect: Asked | Effect, heard: Heard) -> bool:
    """Whether it asks what was asked; of a prompt its words count, and not which step it was."""
    if type(effect) is not type(heard.asked):
        return False
    ask = effect.ask if isinstance(effect, Compact) else effect
    if isinstance(ask, AskModel) and isinstance(heard.event, ModelReplied | ModelFailed | ContextCompacted):
        return heard.event.prompt_digest == ask.view.digest
    return effect == heard.asked
