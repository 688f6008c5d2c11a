"""The ways a run can begin, as values that are complete and validated before anything is created.

``open_run`` opens any of them, for agents and programs alike; this module contains the differences. ``named`` gives the
name parts of a new run directory: the task, and the strategy or language.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.facts import RunResumed, RunStarted
from stackmem.core.state import State
from stackmem.errors import UsageError
from stackmem.settings.network import network_kept
from stackmem.trace.imported import refuse_imported
from stackmem.trace.lock import Lock
from stackmem.trace.open_run import Run
from stackmem.workspace.profile import Mount

from .assemble import RunPlan, plan_run
from .opened import RunPlaces
from .prepare import Prepared
from .request import ProgramRequest, RunRequest
from .run_folder import new_folder, new_run
from .stopped import Stopped


class Fresh(Struct, frozen=True):
    """A new run of a task, of a folder with a prompt, or of a program."""

    prepared: Prepared
    plan: RunPlan
    program: ProgramRequest | None = None

    @property
    def named(self) -> tuple[str, str]:
        return self.prepared.subject.name, self.program.language if self.program else self.plan.strategy.name


class Resumed(Struct, frozen=True):
    """A stopped run that continues under its own name."""

    prepared: Prepared
    plan: RunPlan
    request: RunRequest
    run_dir: Path
    stopped: Stopped
    reopening: RunResumed  # the event that resumes the run, with the limits and isolation level from here on
    lock: Lock  # acquired before the run was read

    @property
    def is_parallel(self) -> bool:
        """Whether the run is a parallel frame of another one."""
        return bool(self.stopped.state.parallel.child)


class _FromState(Struct, frozen=True):
    """Base for runs that begin in a state of another run."""

    prepared: Prepared
    plan: RunPlan
    request: RunRequest
    run: Run
    state: State


class Forked(_FromState, frozen=True):
    """A new run from a state of another run; it shares the other run's records up to that state."""

    at: int  # number of the last shared record
    digest: str  # digest of that record
    name: str = ""  # name of the run directory, for a parallel frame; empty otherwise

    @property
    def is_parallel(self) -> bool:
        return bool(self.name)

    @property
    def named(self) -> tuple[str, str]:
        return self.state.begun.task_name, self.plan.strategy.name


class Edited(_FromState, frozen=True):
    """A new run of an edited program, from the point where it first behaves differently from the recorded run."""

    @property
    def named(self) -> tuple[str, str]:
        return self.state.begun.task_name, self.request.program.language if self.request.program else ""


class Rehearsed(_FromState, frozen=True):
    """A recorded state that is reopened temporarily for inspection. Nothing is kept afterwards."""

    at: int  # number of the last record included in the state


Beginning = Fresh | Resumed | Forked | Edited | Rehearsed


def must_be_original(run: Run, doing: str) -> None:
    """Raise if the run is imported or redacted: its texts are not the ones that were sent.

    Args:
        doing: The operation as a participle, for the message: ``forked``.

    Raises:
        UsageError: The run was imported, or is a redacted copy.
        TraceError: The first record of the trace is broken.
    """
    refuse_imported(run.start, doing)
    if run.start.redacted is not UNSET:
        raise UsageError(f"{run.id} is a redacted copy and cannot be {doing}: its texts were changed; use the original")


def plan_kept(prepared: Prepared, request: RunRequest, base: RunStarted, environ: Mapping[str, str]) -> RunPlan:
    """Return the plan for a run that continues from ``base``, with the recorded sandbox profile.

    Raises:
        UsageError: As ``plan_run``.
    """
    plan = plan_run(prepared, environ)
    if request.program is not None:
        plan = with_mounts(plan, request.program, Path(request.subject))
    profile = replace(plan.profile, network=base.network, command_seconds=base.command_seconds)
    return replace(plan, profile=profile, network=network_kept(plan.network, base))


def with_mounts(plan: RunPlan, program: ProgramRequest, folder: Path | None) -> RunPlan:
    """Return the plan with read-only mounts for ``--mount`` and for the program's folder if it is outside the
    workspace.
    """
    path = Path(program.path)
    outside = folder is None or not path.is_relative_to(folder)
    paths = [*([str(path.parent)] if outside else []), *program.mounts]
    mounts = tuple(Mount(each, each) for each in dict.fromkeys(paths))
    return replace(plan, profile=replace(plan.profile, mounts=(*plan.profile.mounts, *mounts)))


def run_places(beginning: Beginning) -> RunPlaces:
    """Return the directories of the run. For a new run, this creates the run directory."""
    runs_dir, sandbox_dir = beginning.prepared.folders
    if isinstance(beginning, Resumed):
        work = Path(beginning.request.workspace)
        return RunPlaces(beginning.run_dir, work, work.parent)
    if isinstance(beginning, Rehearsed):
        scratch = sandbox_dir / f"replay-{secrets.token_hex(6)}"
        return RunPlaces(scratch, scratch / "workspace", scratch)
    folder_name = beginning.name if isinstance(beginning, Forked) else ""
    run_dir = new_folder(runs_dir, folder_name) if folder_name else new_run(runs_dir, *beginning.named)
    return RunPlaces(run_dir, sandbox_dir / run_dir.name / "workspace", sandbox_dir / run_dir.name)
