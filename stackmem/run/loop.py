"""The agent loop, shared by agents and programs. Start reading here: the other modules each implement a part of it.

Rule 1: An event is recorded before anything that depends on it happens.
Rule 2: Each effect of a parallel group is answered by a separate event, recorded when the answer arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.decider import Decider
from stackmem.core.errors import WorkspaceError
from stackmem.core.facts import ChecksReturned, Event, RunEnded
from stackmem.core.frames import partial_result
from stackmem.core.machine import evolve
from stackmem.core.person_facts import PersonAccepted
from stackmem.core.requests import (
    AskModel,
    Effect,
    MergeFrames,
    ReadClock,
    RunChecks,
    RunFrames,
    RunHook,
    UseOwnTool,
    UseTool,
)
from stackmem.core.state import State

from .companion.jobs import follow_jobs
from .following.news import interrupted, news, read_attached, run_for_user
from .interrupts import Interrupts, OutOfTime
from .perform import World, perform
from .ports import Left, UserChoice, UserCommand, UserFile


def run(
    first: Event | Effect | None,
    state: State,
    decider: Decider,
    world: World,
    record: Callable[[Event, State], None],
    interrupts: Interrupts,
) -> State:
    """Play a run to its end, starting from ``state``, with ``first`` as the next event or effect.

    ``record`` stores each fact before the run continues from it. It also receives the resulting state. Raise TraceError
    if a fact could not be stored. All facts before it are stored.
    """
    if state.jobs.started:
        follow_jobs(state, world.workspace)
    upcoming = first
    while upcoming is not None:  # This is the agent loop.
        event = _fact(upcoming, state, world, interrupts)
        after = evolve(state, event)
        record(event, after)
        decider.note(event, after)
        state = after
        if state.jobs.started:
            follow_jobs(state, world.workspace)
        upcoming = decider.decide(state)
    return state


def _fact(upcoming: Event | Effect, state: State, world: World, interrupts: Interrupts) -> Event:
    """Return the event itself, the event that answers the effect, or the event that records why the run stopped."""
    try:
        if isinstance(upcoming, Effect):
            return _answer(upcoming, state, world, interrupts)
        if interrupts.signal and state.program is not None and state.end is None:
            raise KeyboardInterrupt  # a program can run for a long time without requesting an effect
        return upcoming
    except UserChoice as chosen:
        event = chosen.event
        return replace(event, plan=world.scrub(event.plan)) if isinstance(event, PersonAccepted) else event
    except OutOfTime:
        return RunEnded("limit:seconds", partial_result(state))
    except Left:
        return RunEnded("left", "")
    except KeyboardInterrupt:
        if state.end is not None:
            return ChecksReturned({}, "the checks were interrupted")
        return RunEnded("interrupted", partial_result(state))
    except (WorkspaceError, OSError) as error:  # OSError: files, pipes or memory, without a more specific error
        return RunEnded("workspace_error", world.scrub(str(error)))


def _answer(upcoming: Effect, state: State, world: World, interrupts: Interrupts) -> Event:
    """Return the event that answers the effect.

    In a conversation, a message from the user comes first if one arrived before the effect is performed.
    """
    while True:
        try:
            interrupts.open = True  # inlined ``interrupts.allowed``, because this code runs on every step
            try:
                if interrupts.signal:
                    raise KeyboardInterrupt
                if interrupts.out_of_time and not isinstance(upcoming, ReadClock | RunChecks):
                    raise OutOfTime
                message = news(upcoming, state, world) if state.session is not None or state.jobs.running else None
                if message is not None:
                    return message
                if world.attaching and isinstance(upcoming, AskModel) and state.end is None:
                    return read_attached(world.attaching.pop(0), state, world)
                if world.parallel is not None and isinstance(upcoming, RunFrames | MergeFrames):
                    world.sync()
                    return world.parallel.perform(upcoming, state)
                return perform(upcoming, world)
            finally:
                interrupts.open = False
        except OutOfTime:
            raise
        except UserFile as named:  # read once the workspace has the latest changes of the user's folder
            world.attaching.append(named)
        except UserCommand as typed:
            return run_for_user(typed.command, state, world, interrupts)
        except KeyboardInterrupt as stop:
            if state.session is None or state.end is not None or not interrupts.take_back():
                raise
            if isinstance(upcoming, UseTool | UseOwnTool):
                return interrupted(upcoming, stop, world)
            if isinstance(upcoming, RunHook):
                return HookRan(upcoming.hook, "failed", "the user interrupted it")
            # Discard a partial model reply; the user's next message decides how the run continues.
