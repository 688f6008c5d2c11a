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
from stackmem.core.requests import AskModel, Compact, Effect, InvokeTool, ReadClock, answered, effects_of
from stackmem.core.state import State
from stackmem.errors import TraceError
from stackmem.languages.program import ProgramDecider
from stackmem.memory import open_strategy

from .program import TextOf, program_of
from .record import Record


class Heard(Struct, frozen=True):
    """What was asked, and the fact that answered it."""

    asked: Effect
    event: Event


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
    pending: Effect | None


def tape_of(records: Iterable[Record], text_of: TextOf, repeatable: frozenset[str]) -> Tape:
    """The answers of a run, without what failed of the provider; of a halt, its last question is left out.

    Args:
        repeatable: Tools that may be called twice.

    Raises:
        TraceError: It is no program's run, or a source is gone.

    """
    state, program, begun = State(), None, None
    heard: list[Heard] = []
    isolation = ""
    for record in records:
        event = record.event
        if program is not None and not isinstance(event, RunResumed | RunForked):
            found = _heard(program.decide(state), event)
            heard += [found] if found is not None else []
        halted = _halted(state)
        state = evolve(state, event)
        if isinstance(event, RunResumed | RunStarted):
            isolation = event.isolation
        if program is not None:
            program.note(event, state)
            if isinstance(event, RunResumed) and halted:
                _forget(heard, program.decide(replace(state, clock_fresh=True)), repeatable)
        elif isinstance(event, ProgramStarted):
            begun, program = event, program_of(event, state.begun, open_strategy(state.begun.strategy), text_of)
    if program is None or begun is None:
        raise TraceError("no program had begun in that run; run it anew with stackmem run")
    pending = _pending(program, state, heard, repeatable)  # it may shorten what was heard
    return Tape(state.begun, begun, state.limits, isolation, tuple(heard), pending)


def _halted(state: State) -> bool:
    return state.program is not None and state.program.halted is not None


def _pending(program: ProgramDecider, state: State, heard: list[Heard], repeatable: frozenset[str]) -> Effect | None:
    if state.end is None:
        upcoming = program.decide(replace(state, clock_fresh=True))
        return upcoming if isinstance(upcoming, Effect) else None
    halted = _halted(state)
    again = RunResumed(state.limits, state.begun.isolation, state.begun.version)
    reopened = replace(evolve(state, again), clock_fresh=True)
    program.note(again, reopened)
    upcoming = program.decide(reopened)
    if halted:
        _forget(heard, upcoming, repeatable)
        return None
    return upcoming if isinstance(upcoming, Effect) else None


def _forget(heard: list[Heard], upcoming: Event | Effect | None, repeatable: frozenset[str]) -> None:
    """Take the answers of what is asked again from the end, unless asking again may do harm."""
    asked = effects_of(upcoming)
    while heard and any(_equal(effect, heard[-1]) for effect in asked):
        call = heard[-1].asked
        if isinstance(call, InvokeTool) and call.tool not in repeatable:
            return
        del heard[-1]


def _heard(upcoming: Event | Effect | None, event: Event) -> Heard | None:
    if isinstance(event, ModelFailed) and event.kind != "window":
        return None
    if not isinstance(upcoming, Effect) or isinstance(upcoming, ReadClock):
        return None
    effect = answered(upcoming, event)
    return None if effect is None else Heard(effect, event)


def play_tape(program: ProgramDecider, opening: tuple[Event, ...], tape: Tape) -> tuple[tuple[Event, ...], State, int]:
    """``(facts, state, answers used)``: the program run against the answers for as long as it asks the same.

    Args:
        opening: The facts that the run begins with.

    """
    state, facts, used = State(), list(opening), 0
    for event in opening:
        state = evolve(state, event)
    while True:
        upcoming = program.decide(state)
        if upcoming is None:
            return tuple(facts), state, used
        if isinstance(upcoming, ReadClock):
            event = ClockRead(state.seconds)
        elif isinstance(upcoming, Effect):
            if used == len(tape.heard) or not _same(upcoming, tape.heard[used]):
                return tuple(facts), state, used
            event = tape.heard[used].event
            used += 1
        else:
            event = upcoming
        state = evolve(state, event)
        program.note(event, state)
        facts.append(event)


def _same(upcoming: Effect, heard: Heard) -> bool:
    effect = answered(upcoming, heard.event)
    return effect is not None and _equal(effect, heard)


def _equal(effect: Effect, heard: Heard) -> bool:
    """Whether it asks what was asked; of a prompt its words count, and not which step it was."""
    if type(effect) is not type(heard.asked):
        return False
    ask = effect.ask if isinstance(effect, Compact) else effect
    if isinstance(ask, AskModel) and isinstance(heard.event, ModelReplied | ModelFailed | ContextCompacted):
        return heard.event.prompt_digest == ask.view.digest
    return effect == heard.asked
