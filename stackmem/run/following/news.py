"""Events from outside between two effects: messages of the user, changes of the user's folder, ends of jobs."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.facts import FolderChanged, JobsEnded, ToolReturned
from stackmem.core.jobs.calls import EndedJob
from stackmem.core.person_facts import PersonAttached, PersonRan, PersonSteppedIn, PersonStopped
from stackmem.core.requests import AskModel, AskPerson, Effect, UseOwnTool, UseTool
from stackmem.core.state import State
from stackmem.workspace.command import CommandInterrupted
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.workspace import Workspace

from ..companion.attachments import read_attachment
from ..interrupts import Interrupts, OutOfTime
from ..perform import INTERRUPTED, World
from ..ports import Returned, UserFile

News = PersonSteppedIn | PersonStopped | FolderChanged | JobsEnded


def news(upcoming: Effect, state: State, world: World) -> News | None:
    """Return what comes before the effect, or None. The order is that in which it is recorded."""
    if state.end is not None:
        return None
    event: News | None = None
    if state.session is not None:
        event = _from_user(world) or _changed_folder(upcoming, state, world)
    return event or _ended_jobs(upcoming, state, world)


def _from_user(world: World) -> PersonSteppedIn | PersonStopped | None:
    event = world.person.poll_user()
    return replace(event, text=world.scrub(event.text)) if isinstance(event, PersonSteppedIn) else event


def _changed_folder(upcoming: Effect, state: State, world: World) -> FolderChanged | None:
    """Return what changed in the user's folder, if the model or the user is asked next."""
    if not isinstance(upcoming, AskModel | AskPerson):
        return None
    event = world.follow(state)
    return replace(event, changes=tuple(map(world.scrub, event.changes))) if event is not None else None


def _ended_jobs(upcoming: Effect, state: State, world: World) -> JobsEnded | None:
    """Return which jobs ended, if the model is asked next. A repeated request keeps its bytes."""
    if not state.jobs.running or not isinstance(upcoming, AskModel) or state.failures:
        return None
    if not isinstance(world.workspace, Workspace):
        return None
    ended = world.workspace.jobs.news()
    if not ended:
        return None
    jobs = tuple(EndedJob(each.number, each.command, each.how, each.tail) for each in ended)
    requests = tuple(request for each in ended for request in each.requests)
    digests = {path: world.digest(path) for path in state.heap.sources}
    return JobsEnded(jobs, digests, world.snapshot(), requests or UNSET)


def read_attached(file: UserFile, state: State, world: World) -> PersonAttached:
    """Read what the user attached in a conversation."""
    if file.recorded is not None:
        return file.recorded
    read = read_attachment(file, world, state.shown_bytes)
    from_user = UNSET if file.raw is None else True
    return PersonAttached(read.path, read.content, read.start_line, read.end_line, read.failed, read.images, from_user)


def run_for_user(command: str, state: State, world: World, interrupts: Interrupts) -> PersonRan:
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


def interrupted(effect: UseTool | UseOwnTool, stop: KeyboardInterrupt, world: World) -> ToolReturned:
    """Return the result of a call that the user interrupted: its output so far and the current files."""
    outcome = stop.outcome if isinstance(stop, CommandInterrupted) else None
    text = world.scrub(outcome.text) if outcome is not None else INTERRUPTED
    digests = {path: world.digest(path) for path in effect.sources}
    network_requests = outcome.requests or UNSET if outcome is not None else UNSET
    return ToolReturned(text, True, None, digests, world.snapshot(), network_requests)
