"""The system call filter, built as classic BPF without a library.

It denies what a namespace does not contain: new namespaces, mounts, keyrings, kernel interfaces, terminal injection,
and socket families that bypass a network namespace, such as AF_VSOCK.

Source: seccomp(2), linux/filter.h, linux/audit.h. The numbers for aarch64 come from asm-generic/unistd.h and are
untested.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

from msgspec import Struct

from stackmem.core.errors import WorkspaceError


class Architecture(Struct, frozen=True):
    audit: int
    calls: dict[str, int]


_SHARED = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
_X86_64 = {
    "ioctl": 16,
    "socket": 41,
    "clone": 56,
    "ptrace": 101,
    "pivot_root": 155,
    "adjtimex": 159,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_AARCH64 = {
    "ioctl": 29,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "ptrace": 117,
    "reboot": 142,
    "settimeofday": 170,
    "adjtimex": 171,
    "socket": 198,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "clone": 220,
    "swapon": 224,
    "swapoff": 225,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "clock_adjtime": 266,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}


class RenameCalls(Struct, frozen=True):
    """Numbers of the system calls that rename, and of those that supervise them; -1 if there is none."""

    audit: int
    rename: int
    renameat: int
    renameat2: int
    seccomp: int
    capset: int

    def arguments(self, call: int, values: list[int]) -> tuple[int, int, int, int, int]:
        """Return the arguments of a call as those of ``renameat2``."""
        if call == self.rename:
            return CURRENT_FOLDER, values[0], CURRENT_FOLDER, values[1], 0
        old_in, new_in = (ctypes.c_int(number & 0xFFFF_FFFF).value for number in (values[0], values[2]))
        return old_in, values[1], new_in, values[3], values[4] & 0xFFFF_FFFF if call == self.renameat2 else 0


_MACHINES = {
    "x86_64": Architecture(0xC000003E, _X86_64 | _SHARED),
    "aarch64": Architecture(0xC00000B7, _AARCH64 | _SHARED),
}
_RENAMES = {
    "x86_64": RenameCalls(0xC000003E, 82, 264, 316, 317, 126),
    "aarch64": RenameCalls(0xC00000B7, -1, 38, 276, 277, 91),
}
# These create objects that outlive the command and may be shared with the user's other programs, unless an IPC
# namespace contains them.
_IPC = {
    "x86_64": (
        29,
        30,
        31,
        64,
        65,
        66,
        68,
        69,
        70,
        71,
        220,
        240,
        241,
    ),  # shm*, sem*, msg*, semtimedop, mq_open, mq_unlink
    "aarch64": (180, 181, *range(186, 197)),
}
# All files of a root belong to one user, so changing the owner is unnecessary and reported as success.
_OWNERSHIP = {"x86_64": (92, 93, 94, 116, 260), "aarch64": (54, 55, 159)}  # chown, fchown, lchown, setgroups, fchownat
# These are filtered by their arguments or handled specially.
_BY_ARGUMENT = ("ioctl", "socket", "clone", "clone3", "ptrace")

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS, _NOTIFY = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
CURRENT_FOLDER = -100  # AT_FDCWD
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_X32_BIT = 0x40000000
# NEWTIME NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET
_NEW_NAMESPACES = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16


def _op(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, k)


def _refuse(error: int) -> bytes:
    return _op(_RETURN, _ERRNO | error)


def build_filter(
    *, families: tuple[int, ...], tracing: bool, own_ipc: bool = True, one_user: bool = False, machine: str = ""
) -> bytes:
    """Assemble the program as an array of ``struct sock_filter``.

    Raise WorkspaceError if the table of system calls for this machine is missing.

    Args:
        families: Allowed socket families; others fail with EAFNOSUPPORT.
        tracing: Allow ptrace, which a PID namespace confines.
        own_ipc: Allow shared memory, semaphores and message queues, which an IPC namespace confines.
        one_user: Let changes of ownership succeed without effect, for a root whose files all have the same owner.
        machine: As returned by ``platform.machine``; empty for this machine.
    """
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise WorkspaceError(f"no system call filter for {name}; use --isolation none, which needs none")
    kind = _MACHINES[name]
    calls = kind.calls
    # Another architecture uses different call numbers (int 0x80), so the checks below would not apply to it.
    program = [_op(_LOAD, _ARCH), _op(_EQUAL, kind.audit, yes=1), _op(_RETURN, _KILL_PROCESS), _op(_LOAD, _NR)]
    if name == "x86_64":
        program += [_op(_AT_LEAST, _X32_BIT, no=1), _refuse(errno.ENOSYS)]
    # clone3 passes its flags in memory, which a filter cannot read; C libraries fall back to clone.
    program += [_op(_EQUAL, calls["clone3"], no=1), _refuse(errno.ENOSYS)]
    denied = [number for call, number in calls.items() if call not in _BY_ARGUMENT]
    denied += () if own_ipc else _IPC[name]
    for number in denied if tracing else [*denied, calls["ptrace"]]:
        program += [_op(_EQUAL, number, no=1), _refuse(errno.EPERM)]
    for number in _OWNERSHIP[name] if one_user else ():
        program += [_op(_EQUAL, number, no=1), _refuse(0)]
    program += [
        _op(_EQUAL, calls["clone"], no=4),
        _op(_LOAD, _ARG0),
        _op(_ANY_BIT, _NEW_NAMESPACES, no=1),
        _refuse(errno.EPERM),
        _op(_RETURN, _ALLOW),
    ]
    program += [_op(_EQUAL, calls["ioctl"], no=5), _op(_LOAD, _ARG1)]  # the kernel only uses the low 32 bits
    program += [_op(_EQUAL, _TERMINAL_INJECTION[0], yes=1), _op(_EQUAL, _TERMINAL_INJECTION[1], no=1)]
    program += [_refuse(errno.EPERM), _op(_RETURN, _ALLOW)]
    program += [_op(_EQUAL, calls["socket"], no=len(families) + 2), _op(_LOAD, _ARG0)]
    program += [_op(_EQUAL, family, yes=len(families) - index) for index, family in enumerate(families)]
    program += [_refuse(errno.EAFNOSUPPORT), _op(_RETURN, _ALLOW)]
    return b"".join(program)


def rename_calls(machine: str = "") -> RenameCalls | None:
    """Return the calls that rename on a machine, or None if they are not known."""
    return _RENAMES.get(machine or platform.machine())


def build_rename_filter(calls: RenameCalls) -> bytes:
    """Assemble a program that reports each rename to a supervisor. It allows everything else."""
    program = [_op(_LOAD, _ARCH), _op(_EQUAL, calls.audit, yes=1), _op(_RETURN, _ALLOW), _op(_LOAD, _NR)]
    for number in (calls.rename, calls.renameat, calls.renameat2):
        if number >= 0:
            program += [_op(_EQUAL, number, no=1), _op(_RETURN, _NOTIFY)]
    return b"".join([*program, _op(_RETURN, _ALLOW)])
