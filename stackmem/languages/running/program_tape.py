"""The answers that a program's run received, in order, and how far another program asks the same questions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.budgets import Limits
from stackmem.core.decider import ProgramUnderWay
from stackmem.core.errors import TraceError
from stackmem.core.machine import evolve
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import AskModel, Compact, Effect, InvokeTool, ReadClock, effects_of, match_effect
from stackmem.core.state import State
from stackmem.trace.program import TextOf
from stackmem.trace.record import Record
from stackmem.trace.walk import RecordWalk, WalkedRecord


class Heard(Struct, frozen=True):
    """An effect and the event that answered it."""

    effect: Effect
    event: facts.Event


class Tape(Struct, frozen=True):
    """A program's run as a sequence of answers."""

    start: facts.RunStarted  # the start event in force at the end of the run
    program: ProgramStarted
    limits: Limits
    isolation: str
    answers: tuple[Heard, ...]
    pending: Effect | None  # effect that was asked but not answered, if any


def tape_of(records: Iterable[Record], text_of: TextOf, repeatable: frozenset[str]) -> Tape:
    """Collect the answers of a run, without provider failures.

    If the run halted, the answer to its last question is left out. ``repeatable`` are tools that may be called twice.
    Raise TraceError if it is not a program's run, or a source is missing.
    """
    walk, program_start, answers, isolation = RecordWalk(records, text_of), None, list[Heard](), ""
    reopened = False  # the previous record undid a halt
    for step in walk:
        event, program = step.record.event, walk.program
        if program is not None:
            if reopened:
                _forget(answers, program.decide(replace(step.before, clock_fresh=True)), repeatable)
            answers += _answers_of(step)
        reopened = isinstance(event, facts.RunResumed) and _halted(step.before)
        if isinstance(event, facts.RunResumed | facts.RunStarted):
            isolation = event.isolation
        elif isinstance(event, ProgramStarted):
            program_start = event
    program, state = walk.program, walk.state
    if program is None or program_start is None:
        raise TraceError("that run ended before its program began; start a new run with stackmem run")
    if reopened:
        _forget(answers, program.decide(replace(state, clock_fresh=True)), repeatable)
    pending = _pending(program, state, answers, repeatable)  # may remove entries from ``answers``
    return Tape(state.begun, program_start, state.limits, isolation, tuple(answers), pending)


def _halted(state: State) -> bool:
    return state.program is not None and state.program.halted is not None


def _pending(program: ProgramUnderWay, state: State, answers: list[Heard], repeatable: frozenset[str]) -> Effect | None:
    if state.end is None:
        upcoming = program.decide(replace(state, clock_fresh=True))
        return upcoming if isinstance(upcoming, Effect) else None
    halted = _halted(state)
    resumed = facts.RunResumed(state.limits, state.begun.isolation, state.begun.version)
    reopened = replace(evolve(state, resumed), clock_fresh=True)
    program.note(resumed, reopened)
    upcoming = program.decide(reopened)
    if halted:
        _forget(answers, upcoming, repeatable)
        return None
    return upcoming if isinstance(upcoming, Effect) else None


def _forget(answers: list[Heard], upcoming: facts.Event | Effect | None, repeatable: frozenset[str]) -> None:
    """Remove trailing answers to questions that are asked again, unless repeating the call may do harm."""
    effects = effects_of(upcoming)
    while answers and any(_equal(effect, answers[-1]) for effect in effects):
        call = answers[-1].effect
        if isinstance(call, InvokeTool) and call.tool not in repeatable:
            return
        del answers[-1]


def _answers_of(step: WalkedRecord) -> list[Heard]:
    """Return the record as an answer, if it is one.

    Failed model requests and clock readings are left out, because both are repeated.
    """
    event, effect = step.record.event, step.effect
    if (
        effect is None
        or isinstance(effect, ReadClock)
        or (isinstance(event, facts.ModelFailed) and event.kind != "window")
    ):
        return []
    return [Heard(effect, event)]


def play_tape(
    program: ProgramUnderWay, opening: tuple[facts.Event, ...], tape: Tape
) -> tuple[tuple[facts.Event, ...], State, int]:
    """Run the program against the answers for as long as it asks the same questions.

    Returns ``(events, state, number of answers used)``. ``opening`` are the first events of the run.
    """
    state, events, used = State(), list(opening), 0
    for event in opening:
        state = evolve(state, event)
    while True:
        upcoming = program.decide(state)
        if upcoming is None:
            return tuple(events), state, used
        if isinstance(upcoming, ReadClock):
            event = facts.ClockRead(state.seconds)
        elif isinstance(upcoming, Effect):
            if used == len(tape.answers) or not _matches(upcoming, tape.answers[used]):
                return tuple(events), state, used
            event = tape.answers[used].event
            used += 1
        else:
            event = upcoming
        state = evolve(state, event)
        program.note(event, state)
        events.append(event)


def _matches(upcoming: Effect, answer: Heard) -> bool:
    effect = match_effect(upcoming, answer.event)
    return effect is not None and _equal(effect, answer)


def _equal(effect: Effect, answer: Heard) -> bool:
    """Return whether an effect equals the recorded one. Prompts are compared by content, not by step number."""
    if type(effect) is not type(answer.effect):
        return False
    ask = effect.ask if isinstance(effect, Compact) else effect
    if isinstance(ask, AskModel) and isinstance(
        answer.event, facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted
    ):
        return answer.event.prompt_digest == ask.view.digest
    return effect == answer.effect
