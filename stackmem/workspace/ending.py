"""Ends a command and every process that it started."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen

from .family import Process, children, descendants, read_process

GONE_SECONDS = 3.0
_QUIET_ROUNDS = 3
_PR_SET_CHILD_SUBREAPER = 36

# Stray processes are recognized by appearing after the command started. Two commands at the same time would claim each
# other's processes, so only one may run.
uncontained = threading.Lock()

# The first processes of the commands that run in a sandbox, such as jobs. An uncontained command beside them, such as a
# hook, does not claim their processes. No sandbox starts while processes are searched, so none is seen too early.
_sandboxed = set[int]()
_starting = threading.Lock()


@contextmanager
def starting_sandbox() -> Iterator[Callable[[int], None]]:
    """Start a sandbox in this block and pass the number of its first process to the given function."""
    with _starting:
        yield _sandboxed.add


def sandbox_ended(pid: int) -> None:
    with _starting:
        _sandboxed.discard(pid)


class Tree:
    """The processes that one command started.

    ``contains`` says whether all processes die with the first one; otherwise they are found among our own descendants.
    """

    def __init__(self, *, contains: bool) -> None:
        self._contains = contains
        self._me = os.getpid()
        self._session = os.getsid(0)
        adopt_orphans()
        # With their start times, because a number may be reused by a process of the command.
        self._before = {} if contains else {each.pid: each.started for each in descendants(self._me)}
        self._inner: tuple[int, int] | None = None  # process id and descriptor

    def members(self, process: Popen[bytes], most: int | None = None) -> list[Process]:
        """Return the command's processes, including zombies, without the sandbox's own outer process.

        If the sandbox contains them, the search ends when more than ``most`` are found.
        """
        if self._contains:
            return descendants(process.pid, most)
        return self._strays()

    def hold(self, process: Popen[bytes], inner: int) -> None:
        """Open a descriptor of the sandbox's first process, whose host pid is ``inner``, because the pid could be
        reused.
        """
        if self._inner is not None:
            return
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(inner)
            now = read_process(inner)
            # Checked after the descriptor was opened: before, the number may already be another process.
            if now is not None and now.parent in {process.pid, self._me}:
                self._inner = inner, fd
            else:
                os.close(fd)

    def end(self, process: Popen[bytes]) -> bool:
        """Kill all remaining processes and wait. Return False if any survives ``GONE_SECONDS``."""
        ended = process.returncode is not None or self._kill(process)
        if self._inner:
            _collect(self._inner[0])
        return ended and (self._contains or self._sweep())

    def close(self) -> None:
        if self._inner:
            os.close(self._inner[1])
            self._inner = None

    def _kill(self, process: Popen[bytes]) -> bool:
        # Opened before anything is killed, because the numbers may be reused afterwards.
        opened = [os.pidfd_open(process.pid), *_open_all(children(process.pid) if self._contains else ())]
        waiting = [*opened, self._inner[1]] if self._inner else opened
        try:
            with suppress(ProcessLookupError, PermissionError):
                # The group first: a shell that is killed alone would let its children run for a moment.
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            for fd in waiting[1:]:
                with suppress(OSError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            ended = wait_for_end(waiting, GONE_SECONDS)
        finally:
            for fd in opened:
                os.close(fd)
        with suppress(subprocess.TimeoutExpired):
            # Reaps the process, so that it does not stay a zombie. If it survived, waiting is pointless.
            process.wait(GONE_SECONDS if ended else 0.01)
        return ended

    def _strays(self) -> list[Process]:
        """Return our descendants in other sessions that did not exist before the command, without sandboxes."""
        with _starting:
            family = descendants(self._me)
            inside = _sandboxed | {each.pid for root in _sandboxed for each in descendants(root)}
        return [
            each for each in family
            if each.session != self._session and self._before.get(each.pid) != each.started and each.pid not in inside
        ]  # fmt: skip

    def _sweep(self) -> bool:
        deadline = time.monotonic() + GONE_SECONDS
        quiet = 0
        # Several quiet rounds, because one scan can miss a process that forks while it is read.
        while quiet < _QUIET_ROUNDS:
            self._kill_orphans(deadline)
            strays = self._strays()
            quiet = 0 if strays else quiet + 1
            for each in strays:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(each.pid, signal.SIGKILL)
                _collect(each.pid)
            if time.monotonic() > deadline:
                return False
        return True

    def _kill_orphans(self, deadline: float) -> None:
        """Kill orphans that became our children, until no more appear.

        A daemon that forks and exits repeatedly can evade a scan of all processes. But each of its processes becomes
        our child, and reading our own children takes a fraction of the time that a fork takes.
        """
        while orphans := self._orphans():
            for pid in orphans:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                _collect(pid)
            if time.monotonic() > deadline:
                return

    def _orphans(self) -> list[int]:
        with _starting:
            return [pid for pid in children(self._me) if pid not in _sandboxed and self._is_stray(pid)]

    def _is_stray(self, pid: int) -> bool:
        with suppress(ProcessLookupError):
            if os.getsid(pid) != self._session:
                process = read_process(pid) if pid in self._before else None
                return process is None or process.started != self._before[pid]
        return False


def wait_for_end(pidfds: Iterable[int], seconds: float) -> bool:
    """Wait until all these processes have ended, for at most ``seconds``."""
    deadline = time.monotonic() + seconds
    for fd in pidfds:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
    return True


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can be found and reaped even if PID 1 does not reap."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _open_all(pids: Iterable[int]) -> list[int]:
    fds = []
    for pid in pids:
        with suppress(ProcessLookupError):
            fds.append(os.pidfd_open(pid))
    return fds


def _collect(pid: int) -> None:
    with suppress(ChildProcessError):
        # Never blocks: the process may be the child of another one, or still be ending.
        os.waitpid(pid, os.WNOHANG)
