"""One run from its start to its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from msgspec.structs import asdict

from stackmem.core.state import State
from stackmem.errors import UsageError
from stackmem.history.history import History
from stackmem.history.repository import copy_repository
from stackmem.settings.settings import Settings
from stackmem.trace.store import TraceWriter
from stackmem.workspace.tree import remove_tree

from .assemble import Places, assemble, plan
from .checks import copy_folder
from .in_memory import MEMORY, NoHistory
from .interrupts import Interrupts
from .play import Observe, Opened, applied, play
from .prepare import Prepared
from .request import Request, write_request
from .result import RunResult
from .run_folder import HISTORY, TRACE, new_run


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
        stack.callback(remove_unbegun, places)
        writer = TraceWriter(run_dir / TRACE)
        stack.callback(writer.close)
        with interrupts.setting_up("run", places.scratch):
            history = _begin_files(places, prepared)
            sync = writer.syncs(prepared.resolved.settings.fsync, history.sync)
            parts = assemble(planned, prepared, places, environ, sync, history)
            write_request(asked_of(prepared, places), run_dir)
        stack.callback(parts.workspace.close)
        folder = str(prepared.subject.folder or "")
        opened = Opened(parts, places, writer, history, interrupts, folder, observe)
        result = play(parts.start, State(), opened)
        return applied(result, folder, wanted=prepared.resolved.settings.apply)


def _begin_files(places: Places, prepared: Prepared) -> History | NoHistory:
    """The workspace filled, and what keeps its files; of a run in memory there is neither."""
    if prepared.resolved.settings.isolation == MEMORY:
        return NoHistory()
    fill_workspace(places, prepared)
    return History(places.run / HISTORY, places.work, prepared.copy.folders if prepared.copy else ())


def remove_unbegun(places: Places) -> None:
    """A run that has no first fact never was."""
    trace = places.run / TRACE
    if not trace.exists() or trace.stat().st_size == 0:
        remove_tree(places.run)
        remove_tree(places.scratch)


def fill_workspace(places: Places, prepared: Prepared) -> None:
    subject = prepared.subject
    try:
        # Closed to others: a command that root runs can leave programs there which take root's rights (setuid).
        places.scratch.mkdir(mode=0o700, parents=True)
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


def asked_of(prepared: Prepared, places: Places) -> Request:
    default = Settings()
    settings = prepared.resolved.settings
    flags = {name: value for name, value in asdict(settings).items() if value != getattr(default, name)}
    subject = prepared.subject
    return Request(
        subject=str(subject.task.folder if subject.task else subject.folder),
        text=None if subject.task else subject.text,
        flags={**flags, "model": prepared.model},
        cwd=str(prepared.cwd),
        workspace=str(places.work),
        leave_out=prepared.copy.folders if prepared.copy else (),
    )
