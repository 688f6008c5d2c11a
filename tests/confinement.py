"""Keep a test run as root from changing the machine: everything except a few folders becomes read-only.

The process moves into its own mount namespace and remounts every file system read-only, except the folders that tests
may write. Every process it starts later inherits this. If it lacks the right to do so (a container without
CAP_SYS_ADMIN), the run continues as an unprivileged user or stops with an explanation.

Three mounts stay writable: ``/proc`` (namespaces are set up through it), ``/dev`` (terminals, shared memory) and
``/sys/fs/cgroup`` (tests create control groups). An ordinary user is not confined: the sentinels watch the user's files
instead.
"""

import ctypes
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNTOUCHED = tuple(map(Path, ("/proc", "/dev", "/sys/fs/cgroup")))
SHARED_TEMPORARY = tuple(map(Path, ("/tmp", "/var/tmp")))  # stackmem's sandboxes use these by name

_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MIN_MEMORY_BYTES = 6 << 30
_KEPT_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}


class Unconfinable(Exception):  # noqa: N818 - it states a condition of the machine
    """The machine cannot be protected from the tests; the message says what to do."""


def writable_folders() -> tuple[Path, ...]:
    """Return the folders that stay writable: the checkout and the temporary folders."""
    folders = (ROOT, Path(tempfile.gettempdir()), *SHARED_TEMPORARY)
    return tuple(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))


def make_read_only(writable: Iterable[Path]) -> None:
    """Move this process into its own mount namespace, in which only ``writable`` and ``UNTOUCHED`` can be changed.

    Call it while the process has only one thread. It cannot be undone.

    Raises:
        OSError: The process is not permitted to do so (EPERM).
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments):
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    def mount(source: bytes | None, target: bytes, flags: int) -> None:
        call("mount", source, target, None, ctypes.c_ulong(flags), None)

    call("unshare", _CLONE_NEWNS)
    mount(None, b"/", _MS_REC | _MS_PRIVATE)
    kept = tuple(writable)
    for folder in kept:
        mount(os.fsencode(folder), os.fsencode(folder), _MS_BIND | _MS_REC)
    for point, flags in _mounts():
        if not any(point.is_relative_to(place) for place in (*kept, *UNTOUCHED)):
            try:
                mount(None, os.fsencode(point), _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)
            except OSError as error:
                # A mount hidden under another mount has no usable path, so nobody can write to it by name either.
                if not _covered(point):
                    raise OSError(error.errno, f"{point} cannot be made read-only ({error})") from error


def _mounts() -> list[tuple[Path, int]]:
    """Return this process's mount points in the order they were mounted, with the flags that a remount must repeat."""
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split()
        point = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), fields[4])
        flags = sum(_KEPT_FLAGS.get(option, 0) for option in fields[5].decode().split(","))
        found.append((Path(os.fsdecode(point)), flags))
    return found


def _covered(point: Path) -> bool:
    return [other for other, _ in _mounts()].count(point) > 1 or not point.exists()


def is_read_only(place: Path) -> bool:
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def confine() -> bool:
    """Protect the machine from this process and its children. Does nothing for an ordinary user.

    Returns:
        Whether this call moved the process into its own mount namespace.

    Raises:
        Unconfinable: Mounts cannot be changed here; use `become_unprivileged` instead.
    """
    if os.geteuid() != 0 or is_read_only(Path("/etc")):
        return False
    try:
        make_read_only(writable_folders())
    except OSError as error:
        raise Unconfinable(f"the file systems of this machine cannot be made read-only ({error})") from error
    return True


def mount_memory(folder: Path, available_bytes: int) -> bool:
    """Mount a file system in memory on ``folder``, in the process's own mount namespace; return whether that worked.

    Tests create and remove many small folders. Some disks need five milliseconds for each removal. The file system
    uses at most half of the available memory.
    """
    if available_bytes < MIN_MEMORY_BYTES:
        return False
    options = f"mode=1777,size={available_bytes // 2}".encode()
    return ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), options) == 0


def unmount_at_exit(folder: Path) -> None:
    """Detach the file system from ``folder`` and remove the folder once this process has ended, however it ends."""
    reader, _ = os.pipe()  # the writing end closes with this process
    command = ["setsid", "--fork", "sh", "-c", 'read -r _; umount -l "$0"; rmdir "$0"', str(folder)]
    subprocess.run(command, stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    os.close(reader)


def available_memory() -> int:
    """Return the bytes of memory that programs can use without swapping; 0 if unknown."""
    found = re.search(rb"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_bytes())
    return int(found[1]) << 10 if found else 0


def become_unprivileged(words: list[str]) -> None:
    """Replace this process with ``words`` run as the user ``nobody``, so that tests can write only what that user can.

    Raises:
        Unconfinable: That user cannot read the checkout or Python.
    """
    user = pwd.getpwnam("nobody")
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        readable = os.access(sys.executable, os.X_OK) and os.access(ROOT / "tests" / "conftest.py", os.R_OK)
        os._exit(0 if readable else 1)
    if os.waitpid(child, 0)[1]:
        raise Unconfinable(
            "tests that run as root could change this machine, and neither protection works here: mounts cannot be "
            f"changed, and the user {user.pw_name} cannot read {ROOT} or {sys.executable}. Run the tests as an "
            "ordinary user, or in a container with CAP_SYS_ADMIN"
        )
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.chdir(ROOT)
    os.execv(words[0], words)
