"""Plays a run that is set up, from wherever it stands, and keeps what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.decider import AgentDecider, Decider
from stackmem.core.facts import Event, ModelReplied, RunForked, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.program_facts import PhaseEnded
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.errors import TraceError, UsageError, WorkspaceError
from stackmem.history.history import History
from stackmem.trace.lineage import came_from
from stackmem.trace.store import TraceWriter
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.secrets import Scrubber

from .assemble import Parts, Places
from .in_memory import NoHistory
from .interrupts import Interrupts
from .loop import run
from .patch import apply_run, keep_patch
from .result import RunResult, failure_of, write_result
from .run_folder import RESULT, RUN

Observe = Callable[[Event, State], None]


class Opened(Struct):
    """A run with everything open that it needs.

    Attributes:
        folder: The folder of one's own that the workspace is a copy of; empty for a task.
        seconds_before: Wall time of the run before this process took it up.
        steps_with_secrets: Steps of that time whose reply holds a secret.
        decider: Of a program's run, the program; else the agent's rules decide.

    """

    parts: Parts
    places: Places
    writer: TraceWriter
    history: History | NoHistory
    interrupts: Interrupts
    folder: str = ""
    observe: Observe | None = None
    seconds_before: float = 0.0
    steps_with_secrets: tuple[int, ...] = ()
    decider: Decider | None = None


def play(first: Event | Effect | None, state: State, opened: Opened, known: tuple[Event, ...] = ()) -> RunResult:
    """The run from ``state``, where ``first`` happens next, to its result, which is kept beside its patch.

    Without a ``first`` the run is over, and only its result was not kept.

    Args:
        known: The facts of ``state``, where they are not recorded yet; nobody is told of them again.

    Raises:
        TraceError: The trace or the result cannot be written any more; what stood before is whole.
        WorkspaceError: The patch cannot be made; the result is kept.

    """
    parts, places, writer = opened.parts, opened.places, opened.writer
    secret_steps = list(opened.steps_with_secrets)

    def keep(event: Event, after: State) -> None:
        writer.append(event)
        if isinstance(event, RunStarted | RunForked):
            _write_start(after.begun, places.run)
        if isinstance(event, ModelReplied) and holds_secret(event, parts.scrubber):
            secret_steps.append(after.step)
        if isinstance(event, PhaseEnded):
            parts.world.sync()

    def record(event: Event, after: State) -> None:
        keep(event, after)
        if opened.observe is not None:
            opened.observe(event, after)

    begun = parts.world.clock()
    parts.world.started = begun - opened.seconds_before
    past = State()
    for event in known:
        past = evolve(past, event)
        keep(event, past)
    decider = opened.decider or AgentDecider(parts.strategy)
    try:
        after = run(first, state, decider, parts.world, record, opened.interrupts)
    finally:
        parts.world.close()
    parts.world.sync()
    writer.settle()
    result = replace(
        _result(after, parts, places, opened.seconds_before + time.monotonic() - begun),
        steps_with_secrets=tuple(secret_steps),
        records=writer.count,
        digest=writer.digest,
        signal=opened.interrupts.signal,
        parent=came_from(places.run),
    )
    return _keep(result, after.begun.tree, opened)


def _keep(result: RunResult, before: str, opened: Opened) -> RunResult:
    """The result, in the run's folder beside its patch; a patch that cannot be made takes no result away."""
    if isinstance(opened.history, NoHistory):
        save_result(result)
        return result
    try:
        kept = keep_patch(result, opened.folder, opened.history, before)
    except WorkspaceError:
        save_result(result)
        raise
    except OSError as error:
        raise _unwritten(result, error) from error
    save_result(kept)
    return kept


def applied(result: RunResult, folder: str, *, wanted: bool) -> RunResult:
    """The result, its patch brought into the folder where that was asked for and the work was done.

    Raises:
        UsageError: A file of the folder has changed since; nothing was changed there.
        WorkspaceError: The folder cannot be changed, and is as it was.

    """
    if not (wanted and folder and result.outcome in ("solved", "finished")):
        return result
    try:
        apply_run(Path(result.run_dir))
    except (UsageError, WorkspaceError) as error:
        raise type(error)(
            f"{result.run} is {result.outcome} and kept, but its patch is not applied: {error}"
        ) from error
    done = replace(result, applied_to=folder)
    save_result(done)
    return done


def save_result(result: RunResult) -> None:
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
        (run_dir / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(start), indent=2) + b"\n")
    except OSError as error:
        raise TraceError(f"{run_dir / RUN} cannot be written ({error.strerror}); make room there") from error


def holds_secret(reply: ModelReplied, scrubber: Scrubber) -> bool:
    return any(scrubber.holds(text) for text in _texts(msgspec.to_builtins(reply.parts)))


def _texts(value: object) -> Iterator[str]:
    """Every string in it as it is meant: in JSON a quote in a secret would hide it."""
    match value:
        case str():
            yield value
        case dict():
            for name, inner in value.items():
                yield from (str(name), *_texts(inner))
        case list() | tuple():
            for inner in value:
                yield from _texts(inner)
        case _:
            pass


def _result(state: State, parts: Parts, places: Places, seconds: float) -> RunResult:
    ended, start = state.end, state.begun
    return RunResult(
        run=places.run.name,
        run_dir=str(places.run),
        task=start.task_name,
        model=start.model,
        strategy=start.strategy,
        ending=ended.ending if ended else "interrupted",
        outcome=state.outcome,
        steps=state.step,
        frames=state.pushes,
        usage=state.usage,
        cost_usd=None if state.cost_usd is None else round(state.cost_usd, 6),
        wall_seconds=round(seconds, 3),
        isolation=parts.workspace.level,
        result=ended.result if ended else "",
        workspace="" if isinstance(parts.workspace, MemoryWorkspace) else str(places.work),
        check_error=state.checks.error if state.checks else "",
        failure=failure_of(state),
    )
