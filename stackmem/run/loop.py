"""The agent loop, for agents and programs. Start reading here: everything else is a part of one of its five lines.

Rule 1: a fact is recorded before anything follows from it.
Rule 2: of effects that run side by side each answer is a fact of its own, as it arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.decider import Decider
from stackmem.core.facts import ChecksReturned, Event, RunEnded
from stackmem.core.frames import partial_result
from stackmem.core.machine import evolve
from stackmem.core.requests import Effect, ReadClock, RunChecks, UseOwnTool, UseTool
from stackmem.core.state import State
from stackmem.errors import WorkspaceError

from .interrupts import Interrupts, OutOfTime
from .perform import World, interrupted, meanwhile, perform
from .ports import Left


def run(
    first: Event | Effect | None,
    state: State,
    decider: Decider,
    world: World,
    record: Callable[[Event, State], None],
    interrupts: Interrupts,
) -> State:
    """Play a run to its end from ``state``, where ``first`` happens next."""
    upcoming = first
    while upcoming is not None:  # This is the agent loop.
        event = _fact(upcoming, state, world, interrupts)
        after = evolve(state, event)
        record(event, after)
        decider.note(event, after)
        state = after
        upcoming = decider.decide(state)
    return state


def _fact(upcoming: Event | Effect, state: State, world: World, interrupts: Interrupts) -> Event:
    """The fact itself, or the one that answers the effect, or the one that the run was stopped."""
    try:
        if isinstance(upcoming, Effect):
            return _answer(upcoming, state, world, interrupts)
        if interrupts.signal and state.program is not None and state.end is None:
            raise KeyboardInterrupt  # a program may go on for long without an effect
        return upcoming
    except OutOfTime:
        return RunEnded("limit:seconds", partial_result(state))
    except Left:
        return RunEnded("left", "")
    except KeyboardInterrupt:
        if state.end is not None:
            return ChecksReturned({}, "the checks were interrupted")
        return RunEnded("interrupted", partial_result(state))
    except (WorkspaceError, OSError) as error:  # an OSError: of files, pipes or memory, where nothing better is known
        return RunEnded("workspace_error", world.scrub(str(error)))


def _answer(upcoming: Effect, state: State, world: World, interrupts: Interrupts) -> Event:
    """The fact that answers the effect; or, in a conversation, what the person says before it is performed."""
    while True:
        try:
            interrupts.open = True  # as ``interrupts.allowed`` does, written out: it is on the way of every step
            try:
                if interrupts.signal:
                    raise KeyboardInterrupt
                if interrupts.out_of_time and not isinstance(upcoming, ReadClock | RunChecks):
                    raise OutOfTime
                said = meanwhile(world) if state.session is not None and state.end is None else None
                return perform(upcoming, world) if said is None else said
            finally:
                interrupts.open = False
        except OutOfTime:
            raise
        except KeyboardInterrupt as stop:
            if state.session is None or state.end is not None or not interrupts.take_back():
                raise
            if isinstance(upcoming, UseTool | UseOwnTool):
                return interrupted(upcoming, stop, world)
            # A reply that is on its way is dropped whole; the person says what follows.
