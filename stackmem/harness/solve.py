"""One run from its start to its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ..core.events import Event, ModelReplied, RunStarted
from ..core.state import State
from ..errors import UsageError
from ..trace.store import TraceWriter
from ..workspace.secrets import Scrubber
from ..workspace.tree import remove_tree
from .apply import apply_patch, executed_by_host
from .assemble import Parts, Places, Plan, assemble, plan
from .checks import copy_folder
from .controller import run
from .history import Change, History
from .interrupts import Interrupts
from .repository import copy_repository
from .result import RunResult, failure_of, write_result
from .rundir import CHANGES, HISTORY, PATCH, RESULT, RUN, TRACE, new_run
from .settings import Resolved
from .subject import Subject

Observe = Callable[[Event, State], None]


class Kept(msgspec.Struct, frozen=True):
    """What ``stackmem apply`` reads back: where the copy came from, and what became of it."""

    folder: str
    changes: tuple[Change, ...]


def solve(
    resolved: Resolved,
    subject: Subject,
    environ: Mapping[str, str],
    folders: tuple[Path, Path],
    observe: Observe | None = None,
) -> RunResult:
    """Solve ``subject`` in a workspace of its own and keep the whole run.

    Args:
        folders: The runs directory and the sandbox directory.
        observe: Told of every fact and the state it makes.

    Raises:
        UsageError: What was asked for cannot be; nothing was made.
        WorkspaceError: The workspace or its isolation cannot be had.
        TraceError: The trace cannot be written any more; what stood before is whole.

    """
    runs_dir, sandbox_dir = folders
    planned = plan(resolved, subject, environ)
    run_dir = new_run(runs_dir, subject.name, planned.strategy.name)
    places = Places(run_dir, _workspace(sandbox_dir / run_dir.name, subject, resolved), sandbox_dir / run_dir.name)
    writer = TraceWriter(run_dir / TRACE)
    try:
        return _run(planned, resolved, subject, environ, places, writer, observe)
    finally:
        writer.close()
        if writer.count == 0:  # it never began: leave nothing behind
            remove_tree(run_dir)
            remove_tree(places.scratch)


def _workspace(folder: Path, subject: Subject, resolved: Resolved) -> Path:
    work = folder / "workspace"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"the sandbox directory {folder.parent} cannot be written ({error.strerror}); choose one with --sandbox-dir"
        ) from error
    if subject.folder is not None:
        copy_repository(subject.folder, work, resolved.settings.include)
    elif subject.task is not None and subject.task.workspace is not None:
        copy_folder(subject.task.workspace, work)
    else:
        work.mkdir()
    return work


def _run(
    planned: Plan,
    resolved: Resolved,
    subject: Subject,
    environ: Mapping[str, str],
    places: Places,
    writer: TraceWriter,
    observe: Observe | None,
) -> RunResult:
    history = History(places.run / HISTORY, places.work)
    before = history.snapshot()
    sync = writer.sync if resolved.settings.fsync == "step" else _no_sync
    parts = assemble(planned, resolved, subject, places, environ, sync)
    secret_steps: list[int] = []

    def record(event: Event, state: State) -> None:
        writer.append(event)
        if isinstance(event, RunStarted):
            _write_run(event, places.run)
        if isinstance(event, ModelReplied) and _holds_secret(event, parts.scrubber):
            secret_steps.append(state.step)
        if observe is not None:
            observe(event, state)

    begun = time.monotonic()
    parts.world.started = begun
    try:
        with Interrupts() as interrupts:
            state = run(parts.start, State(), parts.strategy, parts.world, record, interrupts)
        writer.sync()
        result = _result(state, parts, places, time.monotonic() - begun)
        result = replace(
            result,
            steps_with_secrets=tuple(secret_steps),
            records=writer.count,
            digest=writer.digest,
            signal=interrupts.signal,
        )
        result = _keep(result, resolved, subject, history, before, places)
        write_result(result, places.run / RESULT)
        return result
    finally:
        parts.workspace.close()


def _no_sync() -> None:
    """Fsync ``none``: a power loss may cost the last records, kill -9 never does."""


def _write_run(start: RunStarted, run_dir: Path) -> None:
    """``run.json``: the start for people to read; replay never reads it."""
    (run_dir / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(start), indent=2) + b"\n")


def _holds_secret(reply: ModelReplied, scrubber: Scrubber) -> bool:
    return bool(scrubber.holds(msgspec.json.encode(reply.parts).decode()))


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


def _keep(
    result: RunResult, resolved: Resolved, subject: Subject, history: History, before: str, places: Places
) -> RunResult:
    """The result with the patch kept beside it, and applied where that was asked for."""
    after = history.snapshot()
    patch = history.patch(before, after)
    changes = tuple(history.changed(before, after))
    (places.run / PATCH).write_bytes(patch)
    kept = Kept(str(subject.folder or ""), changes)
    (places.run / CHANGES).write_bytes(msgspec.json.encode(kept))
    applied = ""
    if resolved.settings.apply and subject.folder is not None and result.outcome in ("solved", "finished"):
        apply_patch(patch, list(changes), subject.folder)
        applied = str(subject.folder)
    return replace(
        result,
        changed=tuple(change.path for change in changes),
        executed_by_host=tuple(executed_by_host(list(changes))),
        applied_to=applied,
    )


def apply_run(run_dir: Path) -> tuple[Path, tuple[str, ...]]:
    """Apply a finished run's patch to the folder it was copied from; the folder, and the files that changed.

    Raises:
        UsageError: The run has no patch for a folder, or a file has changed since; nothing was changed.

    """
    try:
        kept = msgspec.json.decode((run_dir / CHANGES).read_bytes(), type=Kept)
        patch = (run_dir / PATCH).read_bytes()
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"the run {run_dir.name} has no patch to apply; only finished runs have one") from error
    if not kept.folder:
        raise UsageError(f"the run {run_dir.name} solved a task, not a folder of yours; its patch is {run_dir / PATCH}")
    apply_patch(patch, list(kept.changes), Path(kept.folder))
    return Path(kept.folder), tuple(change.path for change in kept.changes)
