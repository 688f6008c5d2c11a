"""Background jobs of a run: who gets them, what their tools answer, and when they end."""

from __future__ import annotations

from typing import TypeVar, assert_never

from msgspec import UNSET, UnsetType

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.jobs.calls import JobCall, JobNumbers, ListJobs, ReadJob, StopJob
from stackmem.core.jobs.rules import living
from stackmem.core.state import State
from stackmem.core.tool_schemas import offers_jobs
from stackmem.core.tools import RunCommand
from stackmem.settings.settings import Settings
from stackmem.workspace.isolation.levels import no_jobs
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.workspace import Workspace

from ..ports import Returned, WorkspacePort

_LEVELS = ("auto", "bubblewrap", "namespaces")


def wants_jobs(settings: Settings, *, own_folder: bool) -> bool:
    """Return whether a run offers jobs: by default in the user's own folder, if its isolation level bounds them."""
    bounded = settings.isolation in _LEVELS
    if settings.jobs == "on" and not bounded:
        raise UsageError(f"{no_jobs(settings.isolation)}, or leave out --jobs on")
    return settings.jobs == "on" or (settings.jobs == "auto" and own_folder and bounded)


W = TypeVar("W")


def with_jobs(workspace: W, start: RunStarted) -> W:
    """Let the answers to commands name the processes left behind, if the run offers jobs instead."""
    if isinstance(workspace, Workspace) and offers_jobs(start.tools, start.registered):
        workspace.report_left()
    return workspace


def start_job(call: RunCommand, workspace: WorkspacePort, shown_bytes: int) -> Returned:
    """Start the command of a call in the background."""
    if not isinstance(workspace, Workspace):
        return ToolOutcome(no_jobs("memory"), failed=True)
    return workspace.start_job(call.command, call.seconds, shown_bytes)


def answer_job_call(call: JobCall, workspace: WorkspacePort, shown_bytes: int) -> Returned:
    """Return what a job tool answers."""
    if not isinstance(workspace, Workspace):
        return ToolOutcome(no_jobs("memory"), failed=True)
    jobs = workspace.jobs
    match call:
        case ListJobs():
            return jobs.listing(shown_bytes)
        case ReadJob():
            return jobs.read(call.job, call.offset, call.seconds, shown_bytes)
        case StopJob():
            return jobs.stop(call.job, shown_bytes)
        case _:
            assert_never(call)


def numbers_of(outcome: Returned) -> JobNumbers | UnsetType:
    """Return what an answer says about jobs, as it is recorded."""
    if not isinstance(outcome, ToolOutcome) or not (outcome.job or outcome.ended):
        return UNSET
    return JobNumbers(outcome.job, outcome.ended)


def follow_jobs(state: State, workspace: WorkspacePort) -> None:
    """End the jobs that may not run any more: those of popped frames, and all when the run is over."""
    if isinstance(workspace, Workspace):
        workspace.jobs.count_from(state.jobs.started)
        workspace.jobs.keep(job.number for job in living(state))
