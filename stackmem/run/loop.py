"""The agent loop. Start reading here: everything else is a part of one of its five lines."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.facts import ChecksReturned, Event, RunEnded
from stackmem.core.frames import so_far
from stackmem.core.machine import advance, evolve
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import WorkspaceError

from .interrupts import Interrupts
from .perform import World, perform


def run(
    first: Event | Effect | None,
    state: State,
    strategy: MemoryStrategy,
    world: World,
    record: Callable[[Event, State], None],
    interrupts: Interrupts,
) -> State:
    """Play a run to its end from ``state``, where ``first`` happens next.

    Args:
        record: Keeps each fact before anything follows from it; is given the state it makes, too.

    Raises:
        TraceError: A fact could not be kept; all before it are.

    """
    upcoming = first
    while upcoming is not None:  # This is the agent loop.
        event = _perform(upcoming, state, world, interrupts) if isinstance(upcoming, Effect) else upcoming
        state_after = evolve(state, event)
        record(event, state_after)
        state = state_after
        upcoming = advance(state, strategy)
    return state


def _perform(effect: Effect, state: State, world: World, interrupts: Interrupts) -> Event:
    """The fact that answers ``effect``, or the fact that the run was stopped."""
    try:
        with interrupts.allowed():
            return perform(effect, world)
    except KeyboardInterrupt:
        if state.end is not None:
            return ChecksReturned({}, "the checks were interrupted")
        return RunEnded("interrupted", so_far(state))
    except (WorkspaceError, OSError) as error:  # an OSError: of files, pipes or memory, where nothing better is known
        return RunEnded("workspace_error", world.scrub(str(error)))
