"""The jobs of a workspace: starts, shows, reads and ends commands that run in the background.

Rule 1: Each job is a command with the sandbox and the limits of any other; the limits hold for all of them together.
Rule 2: A job ends at the latest when the workspace is closed, and with this process, however that ends.
Rule 3: No lock is shared with the thread of a job, because Ctrl-C could interrupt the main thread while it has it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterable
from contextlib import suppress
from subprocess import Popen

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import WorkspaceError
from stackmem.core.network import NetworkRequest
from stackmem.workspace.clip import cut
from stackmem.workspace.command import CommandEnd, JobOrder
from stackmem.workspace.family import descendants, read_process
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.shown import ending

from .log import JobLog

MAX_RUNNING = 32
"""Jobs that may run at a time."""
MAX_SECONDS = 24 * 3600
"""Maximum life of a job."""
_MAX_SIGNALLED = 10_000
_FIRST_SECONDS = 0.5
_TERM_SECONDS = 3.0
_END_SECONDS = 15.0
_KEPT_ENDED = 64
_SHOWN_CHARS = 200
_TAIL_BYTES = 600
_NOTE_BYTES = 300

Run = Callable[[str, float, JobOrder], CommandEnd]


class BackgroundJob:
    """One job: a thread that runs its command."""

    def __init__(self, number: int, command: str, seconds: float) -> None:
        self.number, self.command, self.seconds = number, command, seconds
        self.log = JobLog()
        self.position = 0  # where the next read begins
        self.began, self.took = time.monotonic(), 0.0
        self.process: Popen[bytes] | None = None
        self.ended: CommandEnd | None = None
        self.failure = ""  # why it was not run, or not to its end
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
        self._over_read, self._over_write = os.pipe2(os.O_CLOEXEC)

    def start(self, run: Run) -> None:
        start_new_thread(self._work, (run,))

    def _work(self, run: Run) -> None:
        try:
            self.ended = run(self.command, self.seconds, JobOrder(self.log, self._stop_read, self._set_process))
        except (WorkspaceError, ToolRefused, OSError) as error:
            self.failure = str(error)
        except BaseException as error:  # noqa: BLE001 - stored, because this thread has no caller
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.took = time.monotonic() - self.began
            os.close(self._over_write)  # whoever waits sees that it has closed

    def _set_process(self, process: Popen[bytes]) -> None:
        self.process = process

    @property
    def has_ended(self) -> bool:
        return self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Wait for the end. Return whether it has come."""
        poll = select.poll()
        poll.register(self._over_read, 0)
        return bool(poll.poll(seconds * 1000))

    def ask_to_end(self) -> None:
        """Send SIGTERM to the processes of the job."""
        if self.process is None or self.has_ended:
            return
        for each in descendants(self.process.pid, _MAX_SIGNALLED):
            with suppress(OSError):
                fd = os.pidfd_open(each.pid)
                try:
                    now = read_process(each.pid)  # the number may have been reused
                    if now is not None and now.started == each.started:
                        signal.pidfd_send_signal(fd, signal.SIGTERM)
                finally:
                    os.close(fd)

    def end(self) -> None:
        """Kill all its processes, without waiting."""
        with suppress(OSError):
            os.write(self._stop_write, b"x")

    def close(self) -> None:
        """Close the descriptors of a job that has ended."""
        for fd in (self._stop_read, self._stop_write):
            os.close(fd)
        self._stop_read = self._stop_write = -1


class JobEnd(Struct, frozen=True):
    """How a job ended, as a run records it."""

    number: int
    command: str
    how: str
    tail: str
    requests: tuple[NetworkRequest, ...] = ()


class Jobs:
    """The jobs of one workspace."""

    def __init__(self, run: Run, readable: Callable[[bytes], str]) -> None:
        """``readable`` converts bytes to clean text without secrets."""
        self._run, self._readable = run, readable
        self._jobs: dict[int, BackgroundJob] = {}
        self._started = 0
        self._reported: set[int] = set()

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(number for number, job in list(self._jobs.items()) if not job.has_ended)

    def count_from(self, started: int) -> None:
        """Number the jobs after those that the run had started before it was resumed."""
        self._started = max(self._started, started)

    def start(self, command: str, seconds: float | None, shown_bytes: int) -> ToolOutcome:
        """Start a job and return its first output."""
        if len(self.running) >= MAX_RUNNING:
            return ToolOutcome(f"{MAX_RUNNING} jobs are running, the maximum; end one with stop_job", failed=True)
        self._started += 1
        job = BackgroundJob(self._started, command, float(seconds or MAX_SECONDS))
        self._jobs[job.number] = job
        job.start(self._run)
        job.wait(_FIRST_SECONDS)
        self._forget()
        if job.failure:
            self._reported.add(job.number)
            return ToolOutcome(f"the job was not started: {job.failure}", failed=True)
        return replace(self._outcome(job, None, shown_bytes), job=job.number)

    def listing(self, shown_bytes: int) -> ToolOutcome:
        lines = [f"{job.number}  {self._status(job)}  {self._command(job)}" for job in list(self._jobs.values())]
        ended = tuple(number for number, job in self._jobs.items() if job.has_ended)
        self._reported.update(ended)
        return ToolOutcome(cut("\n".join(lines) or "no jobs were started", shown_bytes), ended=ended)

    def read(self, number: int, offset: int | None, seconds: float, shown_bytes: int) -> ToolOutcome:
        """Return output from a position on, or from the end of the last read. Wait for the end of the job first."""
        job = self._jobs.get(number)
        if job is None:
            return self._unknown(number)
        if seconds > 0:
            job.wait(seconds)
        return self._outcome(job, offset, shown_bytes)

    def stop(self, number: int, shown_bytes: int) -> ToolOutcome:
        """End a job: SIGTERM first, and SIGKILL after three seconds."""
        job = self._jobs.get(number)
        if job is None:
            return self._unknown(number)
        job.ask_to_end()
        if not job.wait(_TERM_SECONDS):
            job.end()
            job.wait(_END_SECONDS)
        return self._outcome(job, None, shown_bytes)

    def keep(self, numbers: Iterable[int]) -> None:
        """Kill all other jobs. Their ends are not reported."""
        spared = set(numbers)
        ending = [job for number, job in self._jobs.items() if number not in spared and not job.has_ended]
        for job in ending:
            self._reported.add(job.number)
            job.end()
        for job in ending:
            job.wait(_END_SECONDS)

    def news(self) -> tuple[JobEnd, ...]:
        """Return the jobs that have ended since the last call and were in no answer."""
        ended = [job for number, job in self._jobs.items() if number not in self._reported and job.has_ended]
        self._reported |= {job.number for job in ended}
        return tuple(
            JobEnd(
                job.number, self._command(job), self._status(job), self._tail(job),
                job.ended.requests if job.ended else (),
            )
            for job in ended
        )  # fmt: skip

    def close(self) -> None:
        """End all jobs."""
        self.keep(())
        for job in self._jobs.values():
            if job.has_ended:
                job.close()
        self._jobs.clear()

    def _forget(self) -> None:
        ended = [number for number, job in self._jobs.items() if job.has_ended and number in self._reported]
        for number in ended[:-_KEPT_ENDED]:
            self._jobs.pop(number).close()

    def _unknown(self, number: int) -> ToolOutcome:
        names = ", ".join(map(str, self._jobs)) or "none"
        return ToolOutcome(f"unknown job {number}; jobs that can be read: {names}", failed=True)

    def _outcome(self, job: BackgroundJob, offset: int | None, shown_bytes: int) -> ToolOutcome:
        part = job.log.read(job.position if offset is None else offset, max(1, shown_bytes - _NOTE_BYTES))
        has_ended = job.has_ended
        total = job.log.total
        text = self._readable(part.content)
        job.position = part.end
        if text and not text.endswith("\n"):
            text += "\n"
        gap = f"[{part.dropped:,} bytes in between are not kept]\n" if part.dropped else ""
        note = f"[job {job.number} {self._status(job)}; bytes {part.start:,} to {part.end:,} of {total:,}]"
        if has_ended:
            self._reported.add(job.number)
        text = cut(gap + text, max(0, shown_bytes - len(note))) + note
        ended = job.ended
        return ToolOutcome(
            text,
            failed=has_ended and ended is None,
            exit_code=ended.exit_code if ended else None,
            requests=ended.requests if ended else (),
            ended=(job.number,) if has_ended else (),
        )

    def _status(self, job: BackgroundJob) -> str:
        if not job.has_ended:
            return f"is running for {time.monotonic() - job.began:.1f} s"
        if job.ended is None:
            return f"ended: {job.failure}"
        return f"ended: {ending(job.ended, job.seconds)}, after {job.took:.1f} s"

    def _command(self, job: BackgroundJob) -> str:
        return cut(" ".join(self._readable(job.command.encode()).split()), _SHOWN_CHARS)

    def _tail(self, job: BackgroundJob) -> str:
        part = job.log.read(-_TAIL_BYTES, _TAIL_BYTES)
        text = self._readable(part.content)
        return text.partition("\n")[2] if part.start and "\n" in text else text
