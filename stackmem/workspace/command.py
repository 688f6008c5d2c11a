"""Runs one command: starts it, reads its output, monitors it, and leaves no processes behind.

Rule 1: Every wait has a deadline on the monotonic clock.
Rule 2: A command ends when its process ends, not when its output closes: it may close its output and keep running.
Rule 3: However the command ends, even by an exception here, all its processes are dead before ``run`` returns.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from subprocess import Popen

from msgspec import Struct

from stackmem.core.network import NetworkRequest

from .capture import Capture
from .ending import Tree, sandbox_ended, starting_sandbox, uncontained
from .family import first_to_go
from .isolation import confine
from .isolation.launch import CommandLaunch, Level, Seat, SetUpFailed, bound_processes, process_numbers
from .jobs.crowd import Crowd, CrowdMember
from .jobs.log import JobLog
from .outcome import ToolOutcome
from .spawner import StartJob, spawn, spawn_confined
from .watchdog import LOOK_SECONDS, Watchdog

_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_GRACE_SECONDS = 0.5
_START_SECONDS = 10


class CommandInterrupted(KeyboardInterrupt):
    """Raised if Ctrl-C arrives while a command runs."""

    def __init__(self, ended: CommandEnd) -> None:
        super().__init__()
        self.ended = ended  # how the command ended, with its output so far
        self.outcome: ToolOutcome | None = None  # the same as a tool result; None until one was built


class CommandEnd(Struct, frozen=True):
    """How a command ended."""

    capture: Capture | JobLog
    exit_code: int | None  # 128 + N for signal N; None if it was stopped or its sandbox was killed
    # why it was ended early: empty, ``timeout``, ``memory``, ``processes``, ``disk``, ``output``, ``killed``,
    # ``unkillable``, ``interrupted`` or ``stopped``
    reason: str
    errors: Capture | None = None  # stderr if captured separately; otherwise it is part of ``capture``
    requests: tuple[NetworkRequest, ...] = ()  # its network requests, if it can only reach listed hosts
    left: int = 0  # number of processes that it left behind, if the seat wants to know


class JobOrder(Struct, frozen=True):
    """How to run a command as a job."""

    log: JobLog  # receives its output
    stop: int  # a descriptor that becomes readable once the job must end
    started: Callable[[Popen[bytes]], object]  # receives the job's first process


def run(
    level: Level, seat: Seat, command: str, seconds: float, *, apart_bytes: int = 0, job: JobOrder | None = None,
    crowd: Crowd | None = None,  # applies the limits together with other commands that run at the same time
) -> CommandEnd:  # fmt: skip
    """Run a command until it ends or reaches a limit.

    Raise SetUpFailed if the sandbox could not be created; the command never started. Raise CommandInterrupted if Ctrl-C
    came.

    Args:
        apart_bytes: Capture stdout and stderr separately, up to this many bytes each. 0 captures them together.
    """
    with nullcontext() if level.contains else uncontained, ExitStack() as stack:
        watchdog = stack.enter_context(crowd.member()) if crowd else Watchdog(seat.profile, seat.fd)
        launch = level.launch(seat, command, stack)
        running = _Running(launch, level, seat, stack, (apart_bytes, job))
        try:
            process = running.start()
            reason = running.listen(process, seconds, watchdog)
            if not running.end(process):
                reason = "unkillable"
        except BaseException as error:
            running.abandon()
            # only a plain Ctrl-C is converted; the end of the run's time is a subclass
            if type(error) is not KeyboardInterrupt:
                raise
            running.drain()
            network_requests = launch.door.close() if launch.door is not None else ()
            ended = CommandEnd(running.capture, None, "interrupted", running.errors, network_requests)
            raise CommandInterrupted(ended) from error
        running.drain()
        requests = launch.door.close() if launch.door is not None else ()
        if reason:
            return CommandEnd(running.capture, None, reason, running.errors, requests)
        try:
            code = level.ran(process, running.status)
            if launch.door is not None and launch.door.failure:
                raise SetUpFailed(f"the sandbox cannot reach the proxy ({launch.door.failure})")
        except SetUpFailed as error:
            output = b"".join(running.capture.parts()).decode("utf-8", "replace").strip()[-500:]
            raise SetUpFailed(f"{error}: {output or 'no output'}") from error
        reason = "killed" if code is None else ""
        return CommandEnd(running.capture, code, reason, running.errors, requests, running.left)


class _Running:
    """A running command: its process, its pipes and its output so far."""

    def __init__(
        self, launch: CommandLaunch, level: Level, seat: Seat, stack: ExitStack, how: tuple[int, JobOrder | None]
    ) -> None:
        apart_bytes, self._order = how
        self._launch, self._seat, self._stack = launch, seat, stack
        self._contains = level.contains
        self._tree = Tree(contains=level.contains)
        stack.callback(self._tree.close)
        self._job = StartJob(self._popen)
        self.capture: Capture | JobLog = Capture(apart_bytes) if apart_bytes else Capture()
        if self._order is not None:
            self.capture = self._order.log
        self.errors = Capture(apart_bytes) if apart_bytes else None
        self.status, self._is_bound = b"", False
        self._output, self._write_end = _pipe(stack)
        self._pipes: dict[int, Capture | JobLog] = {self._output: self.capture}
        self._errors_end = self._write_end
        if self.errors is not None:
            read_end, self._errors_end = _pipe(stack)
            self._pipes[read_end] = self.errors
        if launch.status_fd >= 0:
            os.set_blocking(launch.status_fd, False)

    def start(self) -> Popen[bytes]:
        if self._launch.renames is not None:
            self._launch.renames.spawn(self._job.run)
        elif self._launch.confinement is None:
            spawn(self._job)
        else:
            spawn_confined(self._job)
        try:
            process = self._job.result()
        except OSError as error:
            raise SetUpFailed(f"{self._launch.argv[0]} cannot be started ({error.strerror})") from error
        if not self._contains:
            first_to_go([process.pid])  # only needed if the command's processes are not contained
        if self._order is not None:
            self._order.started(process)
        return process

    def _popen(self) -> Popen[bytes]:
        """Start the process, in the thread that is to be its parent."""
        launch = self._launch
        try:
            if launch.confinement is not None:
                confine.apply(launch.confinement)
            with starting_sandbox() if self._contains else nullcontext() as started:
                process = subprocess.Popen(
                    launch.argv, stdin=subprocess.DEVNULL, stdout=self._write_end, stderr=self._errors_end,
                    env=launch.environ, cwd=launch.cwd, pass_fds=launch.fds, close_fds=True, start_new_session=True,
                )  # fmt: skip
                if started is not None:
                    started(process.pid)
                    self._stack.callback(sandbox_ended, process.pid)
            return process
        finally:
            self._close_write_ends()

    def listen(self, process: Popen[bytes], seconds: float, watchdog: Watchdog | CrowdMember) -> str:
        """Read output until the process ends or must be stopped. Return why it must be stopped, or an empty string."""
        deadline = time.monotonic() + seconds
        pidfd = os.pidfd_open(process.pid)
        self._stack.callback(os.close, pidfd)
        stop = self._order.stop if self._order is not None else -1
        poll = select.poll()
        for fd in (*self._pipes, pidfd, self._launch.status_fd, stop):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        look_at = time.monotonic() + LOOK_SECONDS
        seen: set[int] = set()
        while (now := time.monotonic()) < deadline:
            if now >= look_at:
                look_at = now + LOOK_SECONDS
                members = self._tree.members(process, self._seat.profile.process_limit)
                first_to_go(each.pid for each in members if each.pid not in seen)
                seen |= {each.pid for each in members}
                if reason := watchdog.look(members):
                    return reason
            ready = {fd for fd, _ in poll.poll(max(0.0, min(deadline, look_at) - now) * 1000)}
            for pipe in ready & self._pipes.keys():
                if not self._read(pipe):
                    poll.unregister(pipe)
            if self._launch.status_fd in ready:
                if not self._read_status():
                    poll.unregister(self._launch.status_fd)
                self._hold(process)
                self._bound_processes()
            if self._printed > self._seat.profile.output_mib << 20:
                return "output"
            if pidfd in ready:
                return ""
            if stop in ready:
                return "stopped"
        return "timeout"

    def end(self, process: Popen[bytes]) -> bool:
        """Kill all remaining processes. Return False if any cannot be killed."""
        while self._launch.status_fd >= 0 and self._read_status():
            pass
        self._hold(process)
        return self._tree.end(process)

    def drain(self) -> None:
        """Read the remaining output. All writers are dead, so it ends immediately."""
        deadline = time.monotonic() + _GRACE_SECONDS
        limit = self._seat.profile.output_mib << 20
        for pipe in self._pipes:
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            while time.monotonic() < deadline and poll.poll(_GRACE_SECONDS * 1000):
                if not self._read(pipe) or self._printed > 2 * limit:
                    break

    @property
    def left(self) -> int:
        """The number of processes that the command left behind."""
        if self._launch.left_fd < 0:
            return 0
        with suppress(BlockingIOError):
            return len(os.read(self._launch.left_fd, _READ_BYTES))
        return 0

    def abandon(self) -> None:
        """End a command that was interrupted. If it is still starting, wait for that first."""
        if self._job.cancel():
            self._close_write_ends()
            return
        with suppress(Exception):  # a failed start leaves nothing to end
            self.end(self._job.result(_START_SECONDS))

    def _hold(self, process: Popen[bytes]) -> None:
        if inner := _inner(self.status):
            self._tree.hold(process, inner)

    def _bound_processes(self) -> None:
        inner, numbers = _inner(self.status), process_numbers(self._seat.profile)
        if inner and numbers and not self._is_bound:
            self._is_bound = True
            bound_processes(inner, numbers)

    def _close_write_ends(self) -> None:
        for end in {self._write_end, self._errors_end}:
            os.close(end)

    @property
    def _printed(self) -> int:
        return sum(capture.total for capture in self._pipes.values())

    def _read(self, pipe: int) -> bool:
        with suppress(BlockingIOError):
            piece = os.read(pipe, _READ_BYTES)
            self._pipes[pipe].take(piece)
            return bool(piece)
        return True

    def _read_status(self) -> bool:
        """Read the next part of the sandbox's status report. Return False if there is no more for now."""
        with suppress(BlockingIOError):
            piece = os.read(self._launch.status_fd, 4096)
            self.status += piece
            return bool(piece)
        return False


def _pipe(stack: ExitStack) -> tuple[int, int]:
    """Return a non-blocking read end, closed by the stack, and the write end."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    stack.callback(os.close, read_end)
    with suppress(OSError):  # a smaller pipe is only slower
        fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.set_blocking(read_end, False)
    return read_end, write_end


def _inner(status: bytes) -> int | None:
    """Return the pid of the sandbox's first process from bubblewrap's status lines. The last line may be incomplete."""
    for line in status.split(b"\n")[:-1]:
        with suppress(ValueError, TypeError):
            report = json.loads(line)
            if isinstance(report, dict) and "child-pid" in report:
                return int(report["child-pid"])
    return None
