"""Restrictions that a thread or process applies to itself: no capabilities, Landlock, and the system call filter.

It is used in three ways: imported by the thread that starts a command; run as a script by a bare interpreter (``python
-I -S confine.py ORDER_FD STARTED_FD COMMAND…``) as the first process of a namespace; and by a task's tests to isolate
the judged code (``python -I -S confine.py apart FOLDER… -- COMMAND…``). So it imports only the standard library.

An order is JSON: ``abi``; ``grants`` (pairs of a path and ``read``, ``write`` or ``device``); ``tcp`` and ``scope``
(whether to restrict these); ``loopback`` (whether to enable it, in a new network namespace); ``cover`` (folders to
cover with an empty one, in a new mount namespace); ``numbers`` (how many process numbers a new process namespace has;
0 changes nothing); ``filter`` (the program in base64); and ``environ`` (variables for the command that this script
starts).

Source: landlock(7), capset(2), seccomp(2), netdevice(7).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import signal
import stat
import struct
import sys

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_CAPSET = {"x86_64": 126, "aarch64": 91}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TCP = 1 | 2  # bind, connect
_SCOPES = 1 | 2  # abstract unix sockets, signals
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_SHARED = ("shm", "mqueue")
_READ_ONLY = 1 | 2 | 4 | 8  # MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC: mount(2)

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """Return the kernel's Landlock version, or 0 if it has none."""
    version = int(_libc.syscall(_LANDLOCK_CREATE, None, 0, 1))
    return max(version, 0)


def all_rights(abi: int) -> int:
    """Return all file system rights that the version supports."""
    return (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1


def apply(order: bytes) -> None:
    """Restrict the calling thread permanently. Children inherit the restrictions.

    Raise OSError if a restriction failed. The thread must then not start any process.
    """
    settings = json.loads(order)
    # Before the capabilities are dropped: enabling an interface needs CAP_NET_ADMIN in the namespace.
    if settings["loopback"]:
        _switch_loopback_on()
    if settings["numbers"]:
        with open("/proc/sys/kernel/pid_max", "w") as most:  # noqa: PTH123 - as in ``main``
            most.write(str(settings["numbers"]))
    # Also before: mounting needs CAP_SYS_ADMIN, and the filter refuses mount(2) afterwards.
    for path in settings["cover"]:
        _check(f"cover {path}", _libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", _READ_ONLY, b"size=4096,mode=755"))
    _check("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities()
    if settings["abi"]:
        _restrict_files(settings)
    # Last, because the filter refuses some of the calls above.
    _load_filter(base64.b64decode(settings["filter"]))


def _check(label: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{label}: {os.strerror(number)}")
    return result


def _switch_loopback_on() -> None:
    import fcntl
    import socket

    up = struct.pack("16sH14x", b"lo", 1)  # struct ifreq with IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


def _drop_capabilities() -> None:
    # _LINUX_CAPABILITY_VERSION_3 with its two words a set; 0 is the calling thread.
    header = struct.pack("Ii", 0x20080522, 0)
    # Effective, permitted and inheritable; without permitted ones a thread cannot raise them again.
    none = struct.pack("6I", 0, 0, 0, 0, 0, 0)
    _check("capset", _libc.syscall(_CAPSET[os.uname().machine], header, none))


def _restrict_files(settings: dict) -> None:  # type: ignore[type-arg]
    handled = all_rights(settings["abi"])
    tcp = _TCP if settings["tcp"] and settings["abi"] >= 4 else 0
    scope = _SCOPES if settings["scope"] and settings["abi"] >= 6 else 0
    attributes = struct.pack("QQQ", handled, tcp, scope)
    # A kernel rejects fields that it does not know.
    size = 24 if settings["abi"] >= 6 else 16 if settings["abi"] >= 4 else 8
    ruleset = _check("landlock", _libc.syscall(_LANDLOCK_CREATE, attributes[:size], size, 0))
    try:
        for path, mode in settings["grants"]:
            _grant(ruleset, path, mode, handled)
        _check("landlock", _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, mode: str, handled: int) -> None:
    rights = {
        "read": _EXECUTE | _READ_FILE | _READ_DIR,
        # Device nodes lead to the hardware whatever their path, so even writable folders may not get new ones.
        "write": handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV),
        "all": handled,
        "device": _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV,
    }[mode]
    try:
        # O_PATH, because a rule needs only the place: opening a FIFO or a device could block or have effects.
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # missing or inaccessible paths need no grant
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            # The kernel refuses a rule for a file that names rights of folders.
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights & handled, fd)
        _check(f"landlock {path}", _libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0))
    finally:
        os.close(fd)


def _load_filter(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    _check("seccomp", _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(header), 0, 0))


def hold_apart(folders: list[str], command: list[str]) -> None:
    """Isolate the judged code from the judge's tests, verdict, processes and programs.

    The folders are closed, except for files in them that the command line names. Writable are only: the current folder,
    the workspace, folders in ``TMPDIR`` that the command line names, and a new ``TMPDIR`` and ``HOME``. So the code
    cannot change the judge's home, its Python or its temporary files. It can only trace or (from Linux 6.12 on) signal
    processes with the same restrictions. If the kernel lacks Landlock, nothing is restricted and stderr says so.
    """
    abi = landlock_abi()
    if not abi:
        os.write(2, b"the kernel has no Landlock: the code that is judged is not held apart\n")
        return
    # Real paths, because Landlock judges the file that a path leads to, not the spelling.
    closed = {os.path.realpath(folder) for folder in folders}
    try:
        open_trees = _open_trees(closed, "/")
    except PermissionError:  # an allow-list level already closes everything else
        open_trees = _program_folders()
    ours = [path for path in command if os.path.isfile(path)]  # noqa: PTH113 - pathlib takes longer to import than this runs
    grants = [(path, "read") for path in (*open_trees, *ours)] + [(path, "write") for path in _own(closed, command)]
    grants += [(f"/dev/{name}", "device") for name in _DEVICES] + [(f"/dev/{name}", "write") for name in _SHARED]
    _check("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _restrict_files({"abi": abi, "grants": grants, "tcp": False, "scope": True})


def _own(closed: set[str], command: list[str]) -> list[str]:
    """Return the folders that the judged code may write; none contains, or is inside, what the judge depends on."""
    judges = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - the default of TMPDIR
    home, paths = os.path.realpath(os.environ.get("HOME") or "/nonexistent"), [os.getcwd(), os.environ.get("WORKSPACE")]  # noqa: PTH109
    paths += [path for path in map(os.path.realpath, command) if os.path.isdir(path) and path.startswith(f"{judges}/")]  # noqa: PTH112
    python = sys.executable.rpartition("/bin/")[0]  # without the site module, sys.prefix ignores virtual environments
    needed = {*closed, home, judges, *map(os.path.realpath, (python, sys.prefix, sys.base_prefix))}
    trees = [os.path.realpath(path) for path in paths if path]
    trees = [tree for tree in trees if not any(f"{each}/".startswith(f"{tree.rstrip('/')}/") for each in needed)]
    trees = [tree for tree in trees if not any(tree.startswith(f"{each}/") for each in needed - {judges})]
    # Unpredictable, so that judged code cannot prepare the folder before it exists.
    fresh = f"{judges}/apart-{os.getpid()}-{os.urandom(4).hex()}"
    with contextlib.suppress(OSError):  # the disk may be full; then TMPDIR is not writable
        os.makedirs(f"{fresh}/home", mode=0o700)  # noqa: PTH103
        trees.append(fresh)
    os.environ.update(TMPDIR=fresh, HOME=f"{fresh}/home")
    return trees


def _open_trees(closed: set[str], folder: str) -> list[str]:
    """Return the largest trees below a folder that contain none of the closed folders."""
    trees = []
    for entry in os.scandir(folder):
        path = entry.path
        if any(each.startswith(f"{path}/") for each in closed):
            trees += _open_trees(closed, path)
        # A link does not need a grant, and granting its target could open a closed folder.
        elif path not in closed and not entry.is_symlink():
            trees.append(path)
    return trees


def _program_folders() -> list[str]:
    """Return where programs and their files are, according to the environment."""
    programs = [path.rpartition("/")[0] for path in os.environ.get("PATH", "").split(":")]
    work = [".", *os.environ.get("PYTHONPATH", "").split(":")]
    work += [os.environ.get(name, "") for name in ("WORKSPACE", "TMPDIR")]
    system = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/dev", "/proc"]
    return [path for path in (*system, sys.base_prefix, *programs, *work) if path.strip("/")]


def main(arguments: list[str]) -> None:
    if arguments[1] == "apart":
        split = arguments.index("--")
        judged = arguments[split + 1 :]
        hold_apart(arguments[2:split], judged)
        os.execvp(judged[0], judged)  # noqa: S606 - the command line comes from the caller
    order_fd, started_fd = int(arguments[1]), int(arguments[2])
    # pread reads from the start, wherever the shared position of the descriptor is.
    order = os.pread(order_fd, os.fstat(order_fd).st_size, 0)
    apply(order)
    os.write(started_fd, b"started")
    # The command must not inherit the order or the pipe: with it, a command could report a start.
    os.closerange(3, max(order_fd, started_fd) + 1)
    # The first process of a namespace ignores signals without a handler, so the command must be the second.
    command = os.fork()
    if command == 0:
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python; the command would inherit that
            signal.signal(ignored, signal.SIG_DFL)
        # Set variables only now: they can influence a program's loader, and this program started unconfined.
        environ = {**os.environ, **json.loads(order)["environ"]}
        os.execve(arguments[3], arguments[3:], environ)  # noqa: S606 - the command line comes from the caller
    while True:
        pid, status = os.wait()
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            # As a shell reports it: 128 and the number of the signal.
            os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main(sys.argv)
