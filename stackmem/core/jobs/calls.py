"""The tools for jobs, and the values for jobs in facts and in the state. ``run_command`` starts a job."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from ..declarations import Behavior

MAX_JOB_SECONDS = 24 * 3600
"""Maximum life of a job."""
MAX_WAIT_SECONDS = 600
"""Maximum time that ``read_job`` waits for the end of a job."""
Number = Annotated[int, Meta(description="The job's number.")]


class ListJobs(Struct, frozen=True, tag="list_jobs"):
    """List the jobs that run_command started with background=true, and how they ended."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)


class ReadJob(Struct, frozen=True, tag="read_job"):
    """Show a job's output from where the last read ended. With seconds, wait up to that long for its end first."""

    behavior: ClassVar[Behavior] = Behavior(reads_files=True, while_closing=True)

    job: Number
    offset: Annotated[int | None, Meta(description="First byte to show; a negative one counts from the end.")] = None
    seconds: Annotated[int, Meta(description=f"At most {MAX_WAIT_SECONDS}.")] = 0


class StopJob(Struct, frozen=True, tag="stop_job"):
    """End a job and all its processes: SIGTERM, and SIGKILL after three seconds. Shows its last output."""

    behavior: ClassVar[Behavior] = Behavior(changes_files=True, while_closing=True)

    job: Number


class KeepJob(Struct, frozen=True, tag="keep_job"):
    """Hand a job to the parent frame, so that it does not end with this frame."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    job: Number


JobCall = ListJobs | ReadJob | StopJob
"""Performed by ``run/companion/jobs.py``. ``keep_job`` is answered from the state."""


class JobNumbers(Struct, frozen=True):
    """The jobs that the answer to a call starts or reports."""

    started: int = 0  # the job that the call started; 0 if none
    ended: tuple[int, ...] = ()  # the jobs that the answer reports as ended


class EndedJob(Struct, frozen=True):
    """A job that ended."""

    number: int
    command: str  # its command, on one line and shortened
    how: str  # how and after what time it ended
    tail: str = ""  # the end of its output


class RunningJob(Struct, frozen=True):
    """A job that runs, as far as the run knows."""

    number: int
    command: str
    frame: str  # id of the frame with which it ends


class RunJobs(Struct, frozen=True):
    """The jobs of a run."""

    started: int = 0  # number of jobs started so far
    running: tuple[RunningJob, ...] = ()  # those not known to have ended. Those of a popped frame have ended with it
    lost: tuple[RunningJob, ...] = ()  # jobs that ran when the run stopped, about which the agent has no notice yet


def ended_with(jobs: RunJobs, frame: str) -> str:
    """Return a line that names the jobs that ended with a frame; empty if there were none."""
    names = [f"{job.number} `{job.command}`" for job in jobs.running if job.frame == frame]
    return f"\n[jobs that ended with it: {'; '.join(names)}]" if names else ""
