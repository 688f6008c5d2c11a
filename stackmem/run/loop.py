"""The agent loop, shared by agents and programs. Start reading here: the other modules each implement a part of it.

Rule 1: An event is recorded before anything that depends on it happens.
Rule 2: Each effect of a parallel group is answered by a separate event, recorded when the answer arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.decider import Decider
from stackmem.core.facts import ChecksReturned, Event, FolderChanged, RunEnded, ToolReturned
from stackmem.core.frames import partial_result
from stackmem.core.machine import evolve
from stackmem.core.person_facts import PersonAttached, PersonRan, PersonSteppedIn, PersonStopped
from stackmem.core.requests import AskModel, AskPerson, Effect, ReadClock, RunChecks, RunHook, UseOwnTool, UseTool
from stackmem.core.state import State
from stackmem.errors import WorkspaceError
from stackmem.workspace.command import CommandInterrupted
from stackmem.workspace.outcome import ToolOutcome

from .interrupts import Interrupts, OutOfTime
from .perform import INTERRUPTED, World, perform
from .ports import Left, Returned, UserCommand, UserFile


def run(
    first: Event | Effect | None,
    state: State,
    decider: Decider,
    world: World,
    record: Callable[[Event, State], None],
    interrupts: Interrupts,
) -> State:
    """Play a run to its end, starting from ``state``, with ``first`` as the next event or effect."""
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
    """Return the event itself, the event that answers the effect, or the event that records why the run stopped."""
    try:
        if isinstance(upcoming, Effect):
            return _answer(upcoming, state, world, interrupts)
        if interrupts.signal and state.program is not None and state.end is None:
            raise KeyboardInterrupt  # a program can run for a long time without requesting an effect
        return upcoming
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
                if state.session is not None and state.end is None:
                    message = _meanwhile(world) or _changed_folder(upcoming, state, world)
                    if message is not None:
                        return message
                    if world.attaching and isinstance(upcoming, AskModel):
                        return _attached(world.attaching.pop(0), state, world)
                return perform(upcoming, world)
            finally:
                interrupts.open = False
        except OutOfTime:
            raise
        except UserFile as named:  # read once the workspace has the latest changes of the user's folder
            world.attaching.append(named)
        except UserCommand as typed:
            return _run_for_user(typed.command, state, world, interrupts)
        except KeyboardInterrupt as stop:
            if state.session is None or state.end is not None or not interrupts.take_back():
                raise
            if isinstance(upcoming, UseTool | UseOwnTool):
                return _interrupted(upcoming, stop, world)
            if isinstance(upcoming, RunHook):
                return HookRan(upcoming.hook, "failed", "the user interrupted it")
            # Discard a partial model reply; the user's next message decides how the run continues.


def _attached(named: UserFile, state: State, world: World) -> PersonAttached:
    """Read what the user attached, with the same confinement as a call of the agent."""
    if named.path.endswith("/"):
        outcome = world.workspace.list_files(named.path.rstrip("/") or ".", state.shown_bytes)
    else:
        outcome = world.workspace.read_file(named.path, named.start_line, named.end_line, state.shown_bytes)
    return PersonAttached(
        world.scrub(named.path), world.scrub(outcome.text), named.start_line, named.end_line, outcome.failed
    )


def _run_for_user(command: str, state: State, world: World, interrupts: Interrupts) -> PersonRan:
    """Run a command that the user typed, in the agent's sandbox. Ctrl-C ends the command and not the run."""
    world.must_have_room()
    world.sync()
    try:
        with interrupts.allowed():
            outcome: Returned | None = world.workspace.run_command(command, world.command_seconds, state.shown_bytes)
    except OutOfTime:
        raise
    except KeyboardInterrupt as stop:
        outcome = stop.outcome if isinstance(stop, CommandInterrupted) else None
        if not interrupts.take_back():
            raise
    outcome = outcome or ToolOutcome(INTERRUPTED, failed=True)
    digests = {path: world.digest(path) for path in state.heap.sources}
    return PersonRan(
        world.scrub(command), world.scrub(outcome.text), outcome.exit_code, digests, world.snapshot(),
        outcome.requests or UNSET,
    )  # fmt: skip


def _meanwhile(world: World) -> PersonSteppedIn | PersonStopped | None:
    """Return what the user wrote or stopped since the last effect."""
    event = world.person.meanwhile()
    return replace(event, text=world.scrub(event.text)) if isinstance(event, PersonSteppedIn) else event


def _changed_folder(upcoming: Effect, state: State, world: World) -> FolderChanged | None:
    """Return what changed in the user's folder, if the model or the user is asked next."""
    if not isinstance(upcoming, AskModel | AskPerson) or state.session is None:
        return None
    event = world.follow(state)
    return replace(event, changes=tuple(map(world.scrub, event.changes))) if event is not None else None


def _interrupted(effect: UseTool | UseOwnTool, stop: KeyboardInterrupt, world: World) -> ToolReturned:
    """Return the result of a call that the user interrupted: its output so far and the current files."""
    outcome = stop.outcome if isinstance(stop, CommandInterrupted) else None
    text = world.scrub(outcome.text) if outcome is not None else INTERRUPTED
    digests = {path: world.digest(path) for path in effect.sources}
    network_requests = outcome.requests or UNSET if outcome is not None else UNSET
    return ToolReturned(text, True, None, digests, world.snapshot(), network_requests)
