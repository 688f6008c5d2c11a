"""Finds the processes that a command started, by their parents in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(Struct, frozen=True):
    pid: int
    state: str
    parent: int
    session: int
    threads: int
    started: int
    resident_bytes: int


def read_process(pid: int) -> Process | None:
    """Read one process, or return None if it has ended."""
    with suppress(OSError, ValueError, IndexError):
        # The process name comes first, in parentheses, and may itself contain parentheses.
        fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
        return Process(
            pid=pid,
            state=fields[0].decode(),
            parent=int(fields[1]),
            session=int(fields[3]),
            threads=int(fields[17]),
            started=int(fields[19]),
            resident_bytes=int(fields[21]) * PAGE_BYTES,
        )
    return None


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; empty if it has ended."""
    pids: list[int] = []
    if not _kernel_lists_children():
        return [each.pid for each in _all_processes() if each.parent == pid]
    with suppress(OSError):
        # The kernel lists the children of each thread separately.
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                pids += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return pids


def descendants(root: int, most: int | None = None) -> list[Process]:
    """Return the processes below ``root``, without it. No other processes of the host are read.

    Args:
        most: Stop when more than this many are found. Without it, a fork bomb could grow faster than it is read.
    """
    processes: dict[int, Process] = {}
    waiting = [root]
    while waiting and (most is None or len(processes) <= most):
        for pid in children(waiting.pop()):
            process = read_process(pid)
            # A process may change its parent while the tree is read, and then appears twice.
            if process is not None and pid not in processes:
                processes[pid] = process
                waiting.append(pid)
    return list(processes.values())


@cache
def _kernel_lists_children() -> bool:
    """Return whether the kernel lists children (CONFIG_PROC_CHILDREN). Otherwise the whole process table is read."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _all_processes() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for process in map(read_process, pids) if process is not None]


def _read(path: str) -> bytes:
    """Read a small file of /proc until its end, because its size is not known in advance."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    finally:
        os.close(fd)


def first_to_go(pids: Iterable[int]) -> None:
    """Make the kernel kill these processes first if the machine runs out of memory. Their children inherit this."""
    for pid in pids:
        with suppress(OSError):
            # The highest value. Raising it needs no privilege, and the children keep it.
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000", "utf-8")
