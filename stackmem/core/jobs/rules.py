"""The rules of jobs: with which frame a job ends, and the notices that the agent gets.

Rule 1: A job ends with the frame that started it. ``keep_job`` hands it to the parent frame first.
Rule 2: A job never outlives the process of its run. After a resume or a fork, one notice names the jobs that are gone.
    In a parallel frame it names the jobs of the parent, which go on there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..facts import JobsEnded, NoticeGiven
from ..frames import tell
from ..state import Notice, State
from ..text import mark_cut
from ..tool_schemas import offers_jobs
from ..tools import RunCommand
from .calls import JobNumbers, KeepJob, RunJobs, RunningJob

LOST = "jobs:lost"
"""Code of the notice about jobs that ran when the run stopped."""
_COMMAND_CHARS = 120


def living(state: State) -> tuple[RunningJob, ...]:
    """Return the jobs that may run: those of open frames, if the run is not over."""
    if not state.jobs.running or state.end is not None:
        return ()
    open_frames = {frame.id for frame in state.stack}
    return tuple(job for job in state.jobs.running if job.frame in open_frames)


def listing(state: State) -> list[str]:
    """Return the jobs that run, one line each, for the user."""
    if not offers_jobs(state.begun.tools, state.begun.registered):
        return [f"this conversation has no background jobs (isolation {state.begun.isolation}; see --jobs)"]
    names = {frame.id: frame.name for frame in state.stack}
    lines = [f"{job.number}  {job.command}  (ends with the frame {names[job.frame]})" for job in living(state)]
    return lines or ["no jobs are running"]


def after_tool(state: State, numbers: JobNumbers) -> State:
    """Return the state with the jobs after a call."""
    jobs = state.jobs
    if numbers.started:
        call = state.pending.call if state.pending else None
        command = call.command if isinstance(call, RunCommand) else ""
        started = RunningJob(numbers.started, mark_cut(" ".join(command.split()), _COMMAND_CHARS), state.running.id)
        jobs = replace(jobs, started=numbers.started, running=(*jobs.running, started))
    return replace(state, jobs=_without(jobs, numbers.ended))


def after_end(state: State, event: JobsEnded) -> State:
    """Return the state without jobs that have ended. The running frame gets a notice."""
    heap = state.heap.with_digests(event.digests)
    jobs = _without(state.jobs, (job.number for job in event.jobs))
    after = replace(state, heap=heap, tree=event.tree or state.tree, jobs=jobs)
    return tell(after, Notice(event.text, heap))


def after_stop(state: State) -> State:
    """Return the state of a run that continues in another process: its jobs are gone."""
    open_frames = {frame.id for frame in state.stack}
    lost_jobs = tuple(job for job in state.jobs.running if job.frame in open_frames)
    if not state.jobs.running:
        return state
    return replace(state, jobs=RunJobs(state.jobs.started, lost=(*state.jobs.lost, *lost_jobs)))


def notice(state: State) -> NoticeGiven | None:
    """Return the notice about jobs that are gone since the run was stopped, or None."""
    lost = state.jobs.lost
    if not lost:
        return None
    names = "; ".join(f"{job.number} `{job.command}`" for job in lost)
    if _are_the_parents(state):
        return NoticeGiven(
            LOST,
            f"Jobs of the parent frame go on there, and this frame cannot reach them: {names}. Start your own if you "
            "need them.",
        )
    return NoticeGiven(
        LOST,
        f"The run was stopped and continues now. Its jobs ended with it, and their output is gone: {names}. Start them "
        "again if you need them.",
    )


def _are_the_parents(state: State) -> bool:
    """Return whether the lost jobs are those of the run that this parallel frame was forked from."""
    ids = [frame.id for frame in state.stack]
    child = state.parallel.child
    own = ids[ids.index(child) :] if child in ids else []
    return bool(child) and all(job.frame not in own for job in state.jobs.lost)


def after_notice(state: State, code: str) -> State:
    return replace(state, jobs=replace(state.jobs, lost=())) if code == LOST else state


def fault_of_keep(state: State, call: KeepJob) -> str:
    """Return why a job cannot be handed to the parent frame, or an empty string."""
    if all(job.number != call.job for job in living(state)):
        numbers = ", ".join(str(job.number) for job in living(state)) or "none"
        return f"no job {str(call.job)[:20]} runs; running jobs: {numbers}"
    if state.running.depth == 0:
        return "this frame has no parent; its jobs run until the run ends"
    return ""


def keep_job(state: State, call: KeepJob) -> tuple[State, str]:
    """Return the state with a job handed to the parent frame, and the answer."""
    if len(state.stack) < 2 or fault_of_keep(state, call):
        return state, ""
    parent = state.stack[-2]
    running = tuple(replace(job, frame=parent.id) if job.number == call.job else job for job in state.jobs.running)
    after = replace(state, jobs=replace(state.jobs, running=running))
    return after, f"job {call.job} belongs to the frame {parent.name!r} now"


def _without(jobs: RunJobs, numbers: Iterable[int]) -> RunJobs:
    ended = set(numbers)
    return replace(jobs, running=tuple(job for job in jobs.running if job.number not in ended)) if ended else jobs
