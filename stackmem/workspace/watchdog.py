"""Enforces limits that cannot be set per process: number of processes, their total memory, and disk usage.

It checks every quarter of a second, so a command may exceed a limit for that long.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .family import Process, read_process
from .profile import Profile

LOOK_SECONDS = 0.25
_MIB = 1 << 20
_RESERVE_BYTES = 256 * _MIB
_RESERVE_FILES = 1000
_LOOKS, _AGAIN_SECONDS = 5, 0.02
_OCTAL = re.compile(rb"\\(\d{3})")


class _Sysinfo(ctypes.Structure):
    _fields_ = (
        ("uptime", ctypes.c_long), ("loads", ctypes.c_ulong * 3), ("total", ctypes.c_ulong), ("free", ctypes.c_ulong),
        ("shared", ctypes.c_ulong), ("buffers", ctypes.c_ulong), ("swap", ctypes.c_ulong * 2),
        ("processes", ctypes.c_ushort), ("high", ctypes.c_ulong * 2), ("unit", ctypes.c_uint),
        ("rest", ctypes.c_byte * 64),
    )  # fmt: skip


class Watchdog:
    """Records the machine's state when a command starts; ``look`` compares with it.

    ``workspace`` is a descriptor on the file system that commands write to.
    """

    def __init__(self, profile: Profile, workspace: int, *, contained: bool = False) -> None:
        """Begin to watch.

        Args:
            contained: All processes of the commands stay in mount namespaces that no other process is in, so every
                process outside of them is a neighbor. Otherwise only older processes surely are.
        """
        self._profile = profile
        self._contained = contained
        self._workspace = workspace
        self._disk = os.fstatvfs(workspace)
        self._shared = _shared_bytes()
        self._group = ControlGroup()
        self._of_group = self._group.shared_bytes()
        self._begun = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
        # The private file systems also count as shared memory, and their sizes are limited separately.
        self._shared_limit = (profile.memory_mib + profile.tmp_mib + profile.shm_mib) * _MIB
        # A tenth stays free, so that the machine does not start to kill processes of the user.
        self._memory_limit = min(profile.memory_mib * _MIB, _machine_bytes() * 9 // 10)

    def look(self, family: list[Process]) -> str:
        """Return the exceeded limit: ``processes``, ``memory`` or ``disk``, or an empty string."""
        return self.too_much(family) or self.disk()

    def too_much(self, family: list[Process]) -> str:
        """Return the limit that these processes exceed: ``processes`` or ``memory``, or an empty string."""
        # Threads, not processes: the kernel counts both against the same limit.
        if sum(process.threads for process in family) > self._profile.process_limit:
            return "processes"
        if sum(process.resident_bytes for process in family) > self._memory_limit:
            return "memory"
        if self._shared_is_too_much({process.pid for process in family}):
            return "memory"
        return ""

    def disk(self) -> str:
        """Return ``disk`` if too much of it was used since the start, or an empty string."""
        return "disk" if self._disk_is_short() else ""

    def _shared_is_too_much(self, family: set[int]) -> bool:
        """Return whether the command uses too much shared memory.

        Memory files that are written but not mapped belong to no process. They only appear in totals: of the machine,
        and of the control group, which excludes other containers, logins and services. From each total, the usage of
        neighbors is subtracted: memory file systems other than the command's, and memory files that older processes
        hold open. Younger processes may belong to the command, which can move between processes. Neighbors that are not
        visible make either remainder too large, so the smaller one counts. A neighbor that ends disappears before its
        memory is freed, so the check is repeated.
        """
        for _ in range(_LOOKS):
            before, of_group = _shared_bytes(), self._group.shared_bytes()
            grown = before - self._shared if of_group is None else of_group - (self._of_group or 0)
            if grown <= self._shared_limit:
                return False
            neighbors = _neighbors(family, None if self._contained else self._begun, self._group)
            if min(before, _shared_bytes()) - neighbors.all_bytes <= self._shared_limit:
                return False
            if of_group is not None and of_group - neighbors.of_group_bytes <= self._shared_limit:
                return False
            time.sleep(_AGAIN_SECONDS)
        return True

    def _disk_is_short(self) -> bool:
        now = os.fstatvfs(self._workspace)
        # Free space, not the size of files: counting files would take seconds in a large tree. Neighbors count too.
        used = (self._disk.f_bavail - now.f_bavail) * now.f_frsize
        files = self._disk.f_favail - now.f_favail
        if used > self._profile.disk_mib * _MIB or files > self._profile.new_files:
            return True
        # If the disk was nearly full before, this command is not to blame.
        low = now.f_bavail * now.f_frsize < _RESERVE_BYTES and used > 16 * _MIB
        # Some file systems (btrfs) have no fixed number of files and report 0.
        few = now.f_files > 0 and now.f_favail < _RESERVE_FILES and files > 100
        return low or few


@cache
def _machine_bytes() -> int:
    """Return the machine's memory. Unlike ``sysinfo``, ``/proc/meminfo`` can be limited to a container's memory."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text("utf-8").splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == "MemTotal:")


class ControlGroup:
    """The control group of this process, version 1 or 2, and its memory statistics."""

    def __init__(self, processes: Path = Path("/proc"), mounts: Path = Path("/sys/fs/cgroup")) -> None:
        self._processes = processes
        self._version, self._path = self._placed("self")
        self.file: Path | None = None  # file with the statistics; None if there is none
        root = mounts if self._version == "0" else mounts / "memory"
        # In a container the path may be the host's path, while the mount itself is the group.
        for group in (root / self._path.lstrip("/"), root) if self._path else ():
            if self.file is None and (group / "memory.stat").exists():
                self.file = group / "memory.stat"

    def shared_bytes(self) -> int | None:
        """Return the shared memory of the group and its subgroups, or None if unknown."""
        with suppress(OSError, ValueError, KeyError):
            if self.file is not None:
                statistics = dict(line.split() for line in self.file.read_bytes().splitlines())
                # In version 1 only total_shmem includes subgroups; in version 2 shmem does.
                return int(statistics.get(b"total_shmem") or statistics[b"shmem"])
        return None

    def has(self, pid: int) -> bool:
        """Return whether a process is in the group or a subgroup."""
        version, path = self._placed(str(pid))
        return version == self._version and f"{path}/".startswith(f"{self._path.rstrip('/')}/")

    def _placed(self, pid: str) -> tuple[str, str]:
        """Return the hierarchy that accounts for memory (0 for version 2) and the group's path in it. Both empty if
        none.
        """
        group = "", ""
        with suppress(OSError, ValueError):
            for line in (self._processes / pid / "cgroup").read_text("utf-8").splitlines():
                number, controllers, path = line.split(":", 2)
                if "memory" in controllers.split(","):
                    return number, path
                # Version 2 lists all controllers in one hierarchy, which has the number 0 and no names.
                if number == "0":
                    group = number, path
        return group


class _Neighbors(NamedTuple):
    """Shared memory used by neighbors: on the whole machine, and at most in the group."""

    all_bytes: int
    of_group_bytes: int


def _neighbors(family: set[int], started: float | None, group: ControlGroup) -> _Neighbors:
    """Return the visible usage of memory file systems and memory files that do not belong to the command.

    Each mount namespace is inspected once, through its first accessible process, which also finds other sandboxes. Only
    root can see what processes of other users hold. Without ``started``, all processes outside the namespaces of the
    family are neighbors.
    """
    sizes: dict[str, int] = {}
    of_group: dict[str, int] = {}
    namespaces = {_namespace(pid) for pid in family} - {_namespace(os.getpid())}
    inside = frozenset(namespaces)
    # This process first: it can always inspect its own namespace.
    for pid in (os.getpid(), *(int(name) for name in os.listdir("/proc") if name.isdigit())):
        usage: dict[str, int] = {}
        namespace = _namespace(pid)
        if namespace and namespace not in namespaces and pid not in family:
            namespaces.add(namespace)
            usage |= memory_mounts(pid)
        if pid not in family and _is_neighbor(pid, started, namespace, inside):
            usage |= _memory_files(pid)
        sizes |= usage
        if usage and group.has(pid):
            of_group |= usage
    return _Neighbors(sum(sizes.values()), sum(of_group.values()))


def _is_neighbor(pid: int, started: float | None, namespace: str, inside: frozenset[str]) -> bool:
    if started is None:
        return bool(namespace) and namespace not in inside
    process = read_process(pid)
    return process is not None and process.started < started


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""


def _memory_files(pid: int) -> dict[str, int]:
    """Return the size of each memory file (memfd_create(2)) that a process holds open, by device and inode."""
    sizes: dict[str, int] = {}
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()).startswith("/memfd:"):
                    status = descriptor.stat()
                    # Allocated blocks, because a sparse file uses less memory than its length.
                    sizes[f"{status.st_dev}/{status.st_ino}"] = status.st_blocks * 512
    return sizes


def memory_mounts(pid: int) -> dict[str, int]:
    """Return the usage of each memory file system that a process sees, by device."""
    sizes: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines():
            seen, _, described = line.partition(b" - ")
            _, _, device, _, mount_point, *_ = seen.split(b" ")
            if not described.startswith(b"tmpfs "):
                continue
            # mountinfo writes spaces and some other characters as octal codes.
            path = Path(
                f"/proc/{pid}/root{os.fsdecode(_OCTAL.sub(lambda code: bytes([int(code[1], 8)]), mount_point))}"
            )
            with suppress(OSError):
                number = path.stat().st_dev
                name = f"{os.major(number)}:{os.minor(number)}"
                if name == device.decode():  # otherwise something else is mounted over it
                    room = os.statvfs(path)
                    sizes[name] = (room.f_blocks - room.f_bfree) * room.f_frsize
    return sizes


def _shared_bytes() -> int:
    """Return the machine's shared memory by sysinfo(2), which is cheaper for the kernel than ``/proc/meminfo``."""
    info = _Sysinfo()
    ctypes.CDLL(None).sysinfo(ctypes.byref(info))
    return int(info.shared * info.unit)
