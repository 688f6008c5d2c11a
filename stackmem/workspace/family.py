"""The processes a command started, found in /proc by their parents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
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
    """Read one process; None when it is gone."""
    with suppress(OSError, ValueError, IndexError):
        # The name comes first, in parentheses, and may hold anything, also parentheses.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
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


def all_processes() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for process in map(read_process, pids) if process is not None]


def descendants(roots: Iterable[int], processes: Iterable[Process]) -> list[Process]:
    """The processes below ``roots``, roots left out; roots first, then their children."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = list(roots)
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return found


def first_to_go(pids: Iterable[int]) -> None:
    """Tell the kernel to take these first when the machine's memory runs out; their children inherit it."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000", "utf-8")
