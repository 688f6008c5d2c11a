"""One run from its start to its result."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stackmem.core.events import Event, ModelReplied, RunStarted
from stackmem.core.state import State
from stackmem.errors import TraceError, UsageError, WorkspaceError
from stackmem.history.history import History
from stackmem.history.repository import copy_repository
from stackmem.trace.store import TraceWriter
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import remove_tree

from .assemble import Parts, Places, assemble, plan
from .checks import copy_folder
from .controller import run
from .interrupts import Interrupts
from .patch import apply_run, keep_patch
from .prepare import Prepared
from .result import RunResult, failure_of, write_result
from .rundir import HISTORY, RESULT, RUN, TRACE, new_run

Observe = Callable[[Event, State], None]


def solve(
    prepared: Prepared,
    environ: Mapping[str, str],
    observe: Observe | None = None,
    stop: Callable[[int], object] = os._exit,
) -> RunResult:
    """Solve what was prepared in a workspace of its own, and keep the whole run.

    Args:
        observe: Told of every fact and the state it makes.
        stop: Ends the program with an exit code, when a second Ctrl-C says that order no longer matters.

    Raises:
        UsageError: What was asked for cannot be; nothing is left behind.
        WorkspaceError: The workspace or its isolation cannot be had; nothing is left behind.
        TraceError: The trace or the result cannot be written any more; what stood before is whole.
        KeyboardInterrupt: Ctrl-C came before the first fact; nothing is left behind. (SIGTERM: ``SystemExit``.)

    """
    planned = plan(prepared, environ)
    runs_dir, sandbox_dir = prepared.folders
    run_dir = new_run(runs_dir, prepared.subject.name, planned.strategy.name)
    places = Places(run_dir, sandbox_dir / run_dir.name / "workspace", sandbox_dir / run_dir.name)
    with ExitStack() as stack, Interrupts(stop) as interrupts:
        stack.callback(_remove_unbegun, places)
        writer = TraceWriter(run_dir / TRACE)
        stack.callback(writer.close)
        sync = writer.sync if prepared.resolved.settings.fsync == "step" else _no_sync
        try:
            with interrupts.allowed():
                _fill_workspace(places, prepared)
                history = History(run_dir / HISTORY, places.work, prepared.copy.folders if prepared.copy else ())
                before = history.snapshot()
                parts = assemble(planned, prepared, places, environ, sync)
        except KeyboardInterrupt:
            if interrupts.signal == signal.SIGTERM:
                raise SystemExit(128 + signal.SIGTERM) from None
            raise
        except OSError as error:
            place = error.filename or places.scratch
            raise WorkspaceError(
                f"the run cannot be set up at {place} ({error.strerror}); make room or rights there"
            ) from error
        stack.callback(parts.workspace.close)
        result = _keep(_play(parts, places, writer, interrupts, observe), prepared, history, before)
        if prepared.resolved.settings.apply and prepared.subject.folder and result.outcome in ("solved", "finished"):
            folder, _ = apply_run(run_dir)
            result = replace(result, applied_to=str(folder))
            _write_result(result)
        return result


def _remove_unbegun(places: Places) -> None:
    """A run that has no first fact never was."""
    trace = places.run / TRACE
    if not trace.exists() or trace.stat().st_size == 0:
        remove_tree(places.run)
        remove_tree(places.scratch)


def _fill_workspace(places: Places, prepared: Prepared) -> None:
    subject = prepared.subject
    try:
        places.scratch.mkdir(parents=True)
    except OSError as error:
        where = places.scratch.parent
        raise UsageError(
            f"the sandbox directory {where} cannot be written ({error.strerror}); choose one with --sandbox-dir"
        ) from error
    if subject.folder is not None:
        copy_repository(subject.folder, places.work, prepared.resolved.settings.include, prepared.folders)
    elif subject.task is not None and subject.task.workspace is not None:
        copy_folder(subject.task.workspace, places.work)
    else:
        places.work.mkdir()


def _play(
    parts: Parts, places: Places, writer: TraceWriter, interrupts: Interrupts, observe: Observe | None
) -> RunResult:
    """The run itself, every fact kept as it becomes one."""
    secret_steps: list[int] = []

    def record(event: Event, state: State) -> None:
        writer.append(event)
        if isinstance(event, RunStarted):
            _write_start(event, places.run)
        if isinstance(event, ModelReplied) and _holds_secret(event, parts.scrubber):
            secret_steps.append(state.step)
        if observe is not None:
            observe(event, state)

    begun = parts.world.started = parts.world.clock()
    state = run(parts.start, State(), parts.strategy, parts.world, record, interrupts)
    writer.sync()
    result = _result(state, parts, places, time.monotonic() - begun)
    return replace(
        result,
        steps_with_secrets=tuple(secret_steps),
        records=writer.count,
        digest=writer.digest,
        signal=interrupts.signal,
    )


def _keep(result: RunResult, prepared: Prepared, history: History, before: str) -> RunResult:
    """The result, in the run's folder beside its patch; a patch that cannot be made takes no result away."""
    try:
        kept = keep_patch(result, prepared, history, before)
    except WorkspaceError:
        _write_result(result)
        raise
    except OSError as error:
        raise _unwritten(result, error) from error
    _write_result(kept)
    return kept


def _write_result(result: RunResult) -> None:
    try:
        write_result(result, Path(result.run_dir) / RESULT)
    except OSError as error:
        raise _unwritten(result, error) from error


def _unwritten(result: RunResult, error: OSError) -> TraceError:
    return TraceError(
        f"the run ended ({result.outcome}) and its trace is whole, but its result cannot be written to "
        f"{result.run_dir} ({error.strerror}); make room there"
    )


def _no_sync() -> None:
    """Fsync ``none``: a power loss may cost the last records, kill -9 never does."""


def _write_start(start: RunStarted, run_dir: Path) -> None:
    """``run.json``: the start for people to read; replay never reads it."""
    try:
        (run_dir / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(start), indent=2) + b"\n")
    except OSError as error:
        raise TraceError(f"{run_dir / RUN} cannot be written ({error.strerror}); make room there") from error


def _holds_secret(reply: ModelReplied, scrubber: Scrubber) -> bool:
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
    ended = state.end
    return RunResult(
        run=places.run.name,
        run_dir=str(places.run),
        task=parts.start.task_name,
        model=parts.start.model,
        strategy=parts.start.strategy,
        ending=ended.ending if ended else "interrupted",
        outcome=state.outcome,
        steps=state.step,
        frames=state.pushes,
        usage=state.usage,
        cost_usd=round(state.usd, 6) if parts.start.price else None,
        wall_seconds=round(seconds, 3),
        isolation=parts.start.isolation,
        result=ended.result if ended else "",
        workspace=str(places.work),
        check_error=state.checks.error if state.checks else "",
        failure=failure_of(state),
    )
