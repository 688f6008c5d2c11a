"""Plays an open run from its current state and saves the result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.conversation.keeping import standing_of
from stackmem.core.decider import AgentDecider, Decider
from stackmem.core.errors import TraceError
from stackmem.core.facts import Event, FramePopped, ModelReplied, RunEnded, RunForked, RunResumed, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.neighbors import neighbor
from stackmem.core.parallel.rules import child_end
from stackmem.core.program_facts import PhaseEnded, ToolAnswered
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.foreign.private import write_json
from stackmem.models.spoken import watching
from stackmem.trace.lineage import RunReader, came_from
from stackmem.trace.program import called_programs, sources_of
from stackmem.trace.signatures import Signer
from stackmem.trace.store import TraceWriter
from stackmem.workspace.tree import remove_tree
from stackmem.workspace.workspace import Workspace

from .companion.git_inside import commits_made
from .ending import keep_end
from .in_memory import NoHistory
from .loop import run
from .opened import Opened, RunPlaces
from .ports import end_spans
from .result import RunResult, failure_of, holds_secret, result_fields
from .run_folder import RUN
from .stored_request import read_request

_FROM_THE_WORKSPACE = (
    facts.ToolReturned, facts.VerifyReturned, facts.SourcesDigested, facts.ChecksReturned, ToolAnswered,
)  # fmt: skip
_NOTED = {*_FROM_THE_WORKSPACE, RunStarted, RunForked, RunResumed, RunEnded, ModelReplied, FramePopped, PhaseEnded}
"""Events that need more than a line in the trace."""


Play = Callable[[Event, State, Opened], object]


def play(first: Event | Effect | None, state: State, opened: Opened, events: tuple[Event, ...] = ()) -> RunResult:
    """Play the run from ``state`` with ``first`` as the next event or effect, and save its result next to its patch.

    If ``first`` is None, the run had already ended and only its result is missing. ``events`` are known facts that
    follow ``state``. They are recorded first, without a call to an observer. Raise TraceError if the trace or the
    result cannot be written. Earlier records are complete. Raise WorkspaceError if the patch cannot be created. The
    result is saved.
    """
    places, world = opened.places, opened.world
    writer, signer = opened.writer, opened.signer
    if writer is None or signer is None:
        raise TypeError("a run without a trace can be inspected, but not played")
    noted = _Noted(opened, writer, signer)
    append = _appending(writer, opened, evolve(State(), first) if isinstance(first, RunStarted) else state)

    def record(event: Event, after: State) -> None:
        append(event, after)
        if type(event) in _NOTED:
            noted.note(event, after)

    def record_and_tell(event: Event, after: State) -> None:
        record(event, after)
        if opened.person.observe is not None:
            opened.person.observe(event, after)

    world.person.attend(places.run)
    if not isinstance(opened.history, NoHistory):
        world.parallel = neighbor("kernel: parallel frames")(opened, play)
    world.started = (begin := world.clock()) - opened.seconds_before
    decider: Decider = opened.program or _agent(opened)
    for event in events:
        state = evolve(state, event)
        record(event, state)  # the program has already noted it
    reading = opened.person.observe_reading
    with nullcontext() if reading is None else watching(reading):
        state = run(first, state, decider, world, record_and_tell, opened.interrupts)
    world.close()
    world.sync()
    writer.settle()
    used = noted.used or _was_used(state, first, places)
    result = replace(
        _result(state, opened, opened.seconds_before + world.clock() - begin, keep=used),
        steps_with_secrets=tuple(noted.secret_steps),
        records=writer.count,
        digest=writer.digest,
        signal=opened.interrupts.signal,
        parent=came_from(places.run),
    )
    final = keep_end(
        result, opened.history, opened.folder, (state.begun.tree, ""), signer, apply=opened.apply,
        release=writer.release, complete=partial(_with_commits, opened),
    )  # fmt: skip
    return _ended(final, opened)


def _agent(opened: Opened) -> AgentDecider:
    """Return the agent, with the programs that it had called before the run was resumed or forked."""
    strategy, agent = opened.strategy, opened.agent
    if agent is None:
        return AgentDecider(strategy, called_programs(sources_of(opened.places.run)))
    agent.strategy = strategy
    return agent


class _Noted:
    """Handles what some events require in addition to their trace lines.

    Attributes:
        secret_steps: Steps whose reply contained a secret.
        used: Whether any event recorded since then could have read or changed the workspace.
    """

    def __init__(self, opened: Opened, writer: TraceWriter, signer: Signer) -> None:
        self._opened, self._writer, self._signer = opened, writer, signer
        self.secret_steps, self.used = list(opened.steps_with_secrets), False

    def note(self, event: Event, after: State) -> None:
        opened, world = self._opened, self._opened.world
        self.used = self.used or isinstance(event, _FROM_THE_WORKSPACE)
        if isinstance(event, RunStarted | RunForked | RunResumed | RunEnded):
            opened.interrupts.end_after(_seconds_left(after, world.clock() - world.started))
        if isinstance(event, RunStarted | RunForked):
            _write_start(after.begun, opened.places.run)
        if isinstance(event, ModelReplied) and holds_secret(event, opened.scrubber):
            self.secret_steps.append(after.step)
        if isinstance(event, FramePopped):
            self._writer.after_sync(
                self._signer.sign_frame
            )  # sign after the sync, so that a power loss cannot leave a signature for lost records
        if isinstance(event, PhaseEnded):
            world.sync()


def _appending(writer: TraceWriter, opened: Opened, state: State) -> Callable[[Event, State], object]:
    """Return the function that records an event. Changes to a persistent heap are saved first."""
    keeper, live = opened.keeper, opened.live
    if keeper is None and live is None:
        return lambda event, _: writer.append(event)
    if keeper is not None:
        keeper.begin(state.heap, state.directory, standing_of(state), opened.places.run.name)

    def append(event: Event, after: State) -> None:
        if keeper is not None:
            # if the process dies between the two, replay recreates the event and saves the heap again
            keeper.follow(after.heap, after.directory)
            keeper.follow_words(standing_of(after))
        record = writer.append(event)
        if live is not None:
            live.take(record)

    return append


def _ended(result: RunResult, opened: Opened) -> RunResult:
    """Send the remaining spans, remove unused files and return the result."""
    end_spans(opened.live, opened.person.notice)
    if opened.late is not None:
        opened.late.close()
    if not result.workspace and not isinstance(opened.history, NoHistory):
        remove_tree(opened.places.scratch)
    return result


def _was_used(state: State, first: Event | Effect | None, places: RunPlaces) -> bool:
    """Return whether anything could have read or changed the workspace before this process played the run."""
    # a conversation continues in the workspace
    if state.step or state.outcome != "finished" or state.session is not None:
        return True
    if isinstance(first, RunStarted):
        return False
    return any(isinstance(record.event, _FROM_THE_WORKSPACE) for record in RunReader(places.run))


def _with_commits(opened: Opened, result: RunResult) -> RunResult:
    """Return the result with the agent's commits and how much history it could read."""
    repository, workspace = opened.stored.git if opened.late is None else opened.late.made, opened.workspace
    if repository is None or not isinstance(workspace, Workspace):
        return result
    repository = read_request(opened.places.run).git or repository  # the head has followed the folder's
    shortened = f"the last {repository.commits:,} commits" if repository.shortened else ""
    return replace(result, commits=commits_made(workspace, repository, opened.scrubber.scrub), history=shortened)


def _seconds_left(state: State, elapsed: float) -> float | None:
    """Return the remaining time in seconds, or None if there is no limit or the run is over.

    Checks after the end have their own time limit.
    """
    limit = state.limits.seconds
    return None if limit is None or state.end is not None else limit - elapsed


def _write_start(start: RunStarted, run_dir: Path) -> None:
    """Write ``run.json`` for people to read; replay does not use it."""
    try:
        write_json(run_dir / RUN, start)
    except OSError as error:
        raise TraceError(f"{run_dir / RUN} cannot be written ({error.strerror}); make room there") from error


def _result(state: State, opened: Opened, seconds: float, *, keep: bool) -> RunResult:
    places = opened.places
    return RunResult(
        run=places.run.name,
        run_dir=str(places.run),
        wall_seconds=round(seconds, 3),
        isolation=opened.workspace.level,
        workspace=str(places.layer.writes) if places.layer is not None and keep and not child_end(state) else "",
        chunks=state.heap.stored,
        failure=failure_of(state),
        **result_fields(state),
    )
