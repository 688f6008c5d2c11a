"""Plays a run that is open, from wherever it stands, and keeps what becomes of it."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.decider import AgentDecider
from stackmem.core.facts import Event, ModelReplied, RunForked, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.program_facts import PhaseEnded
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.errors import TraceError, UsageError, WorkspaceError
from stackmem.trace.lineage import came_from
from stackmem.trace.private import write_json
from stackmem.workspace.memory import MemoryWorkspace

from .assemble import RunParts, RunPlaces
from .git_inside import commits_made
from .in_memory import NoHistory
from .loop import run
from .open import Opened
from .patch import apply_run, keep_patch
from .result import RunResult, failure_of, holds_secret, result_fields, write_result
from .run_folder import RESULT, RUN


def play(first: Event | Effect | None, state: State, opened: Opened, known: tuple[Event, ...] = ()) -> RunResult:
    """The run from ``state``, where ``first`` happens next, to its result, which is kept beside its patch.

    Without a ``first`` the run is over, and only its result was not kept.

    Args:
        known: Facts that follow ``state`` and are known already: they are recorded first, and nobody is told of them.

    Raises:
        TraceError: The trace or the result cannot be written any more; what stood before is whole.
        WorkspaceError: The patch cannot be made; the result is kept.
    """
    parts, places, writer, world = opened.parts, opened.places, opened.writer, opened.parts.world
    if writer is None:
        raise TypeError("a run without a trace is looked at, not played")
    secret_steps = list(opened.steps_with_secrets)

    def record(event: Event, after: State) -> None:
        writer.append(event)
        if isinstance(event, RunStarted | RunForked):
            _write_start(after.begun, places.run)
        if isinstance(event, ModelReplied) and holds_secret(event, parts.scrubber):
            secret_steps.append(after.step)
        if isinstance(event, PhaseEnded):
            world.sync()

    def record_and_tell(event: Event, after: State) -> None:
        record(event, after)
        if opened.person.observe is not None:
            opened.person.observe(event, after)

    begun = world.clock()
    world.started = begun - opened.seconds_before
    for event in known:
        state = evolve(state, event)
        record(event, state)
    decider = opened.program or AgentDecider(parts.strategy)
    state = run(first, state, decider, world, record_and_tell, opened.interrupts)
    world.close()
    world.sync()
    writer.settle()
    result = replace(
        _result(state, parts, places, opened.seconds_before + time.monotonic() - begun),
        steps_with_secrets=tuple(secret_steps),
        records=writer.count,
        digest=writer.digest,
        signal=opened.interrupts.signal,
        parent=came_from(places.run),
    )
    return _apply(_keep(result, state.begun.tree, opened), opened)


def _keep(result: RunResult, before: str, opened: Opened) -> RunResult:
    """The result, in the run's folder beside its patch; a patch that cannot be made takes no result away."""
    if isinstance(opened.history, NoHistory):
        _save(result)
        return result
    try:
        kept = keep_patch(_with_commits(result, opened), opened.folder, opened.history, before)
    except WorkspaceError:
        _save(result)
        raise
    except OSError as error:
        raise _unwritten(result, error) from error
    _save(kept)
    return kept


def _with_commits(result: RunResult, opened: Opened) -> RunResult:
    """The result with what the agent committed, and how much of the history it could read."""
    given, workspace = opened.request.git, opened.parts.workspace
    if given is None or isinstance(workspace, MemoryWorkspace):
        return result
    shortened = f"the last {given.commits:,} commits" if given.shortened else ""
    return replace(result, commits=commits_made(workspace, given, opened.parts.scrubber.scrub), history=shortened)


def _apply(result: RunResult, opened: Opened) -> RunResult:
    """The result, its patch brought into the person's folder where that was asked for and the work was done.

    Raises:
        UsageError: A file of the folder has changed since; nothing was changed there.
        WorkspaceError: The folder cannot be changed, and is as it was.
    """
    if not (opened.apply and opened.folder and result.outcome in ("solved", "finished")):
        return result
    try:
        apply_run(Path(result.run_dir))
    except (UsageError, WorkspaceError) as error:
        raise type(error)(
            f"{result.run} is {result.outcome} and kept, but its patch is not applied: {error}"
        ) from error
    done = replace(result, applied_to=opened.folder)
    _save(done)
    return done


def _save(result: RunResult) -> None:
    try:
        write_result(result, Path(result.run_dir) / RESULT)
    except OSError as error:
        raise _unwritten(result, error) from error


def _unwritten(result: RunResult, error: OSError) -> TraceError:
    return TraceError(
        f"the run ended ({result.outcome}) and its trace is whole, but its result cannot be written to "
        f"{result.run_dir} ({error.strerror}); make room there"
    )


def _write_start(start: RunStarted, run_dir: Path) -> None:
    """``run.json``: the start for people to read; replay never reads it."""
    try:
        write_json(run_dir / RUN, start)
    except OSError as error:
        raise TraceError(f"{run_dir / RUN} cannot be written ({error.strerror}); make room there") from error


def _result(state: State, parts: RunParts, places: RunPlaces, seconds: float) -> RunResult:
    return RunResult(
        run=places.run.name,
        run_dir=str(places.run),
        wall_seconds=round(seconds, 3),
        isolation=parts.workspace.level,
        workspace="" if isinstance(parts.workspace, MemoryWorkspace) else str(places.work),
        chunks=tuple(state.heap.chunks),
        failure=failure_of(state),
        **result_fields(state),
    )
