"""The interface of an isolation level: how to start one command."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.egress.door import PORT, Door
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.jobs.network import RunNetwork
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.python import Toolchain
from stackmem.workspace.renames.supervisor import RenameSupervisor

_BOUND_SECONDS = 5.0


class SetUpFailed(WorkspaceError):  # noqa: N818 - named like the errors in stackmem.core.errors
    """The sandbox could not be created, so the command never ran."""


class Seat(Struct, frozen=True):
    """Environment in which commands run."""

    root: Path
    fd: int  # the workspace folder, opened with O_PATH; levels that can mount use it instead of the path
    path: str  # path of the workspace inside the sandbox
    profile: Profile
    mounts: tuple[Mount, ...]
    # additional variables of the command. They may come from a third party, so host programs that set up the sandbox
    # never run with them
    environ: Mapping[str, str]
    toolchain: Toolchain
    skeleton: Path  # the folder used as ``/etc``
    hidden: tuple[Path, ...] = ()  # host folders that commands never see into, if the level can mount
    binds_git: bool = True  # mount ``.git`` onto itself, so that a command can neither move it nor plant hooks in it
    first: tuple[str, ...] = ()  # folders that come first on PATH, as paths inside the sandbox
    place: str = ""  # subfolder in which commands start, relative; empty for the workspace itself
    view: WorkspaceView | None = None  # view of the folder, if it is only visible in separate namespaces
    # hosts that commands can reach through a proxy; None if the profile decides
    network_list: NetworkList | None = None
    shared: RunNetwork | None = None  # the network that the commands share; None if each has its own, or the host's
    reports_left: bool = False  # report the processes that a command leaves behind
    lasting: bool = False  # the command is a job, whose connections must not end with those of another command

    @property
    def proxy_port(self) -> int:
        """The port of the command's own proxy; 0 for a free one, if the commands share a network."""
        return PORT if self.shared is None else 0

    @property
    def entry(self) -> WorkspaceView | None:
        """What a command enters before its sandbox is created."""
        return self.view if self.shared is None else self.shared.view


class CommandLaunch(Struct, frozen=True):
    """A command that is ready to start."""

    argv: tuple[str, ...]  # the command with its limits and sandbox
    environ: dict[str, str]
    cwd: str
    # descriptors that the child inherits; the creator of the launch closes them through its stack
    fds: tuple[int, ...] = ()
    status_fd: int = -1  # read end of the sandbox's status reports, or -1
    confinement: bytes | None = None  # restrictions that the starting thread applies to itself first; None for none
    door: Door | None = None  # the proxy connection of the command's network; None if it has no network or the host's
    renames: RenameSupervisor | None = None  # supervises its renames in an overlay; None if it sees none
    left_fd: int = -1  # read end of a pipe with a character for each process that it leaves behind, or -1


class Level(Protocol):
    """A way to isolate commands."""

    name: str  # as displayed to users and models and stored in the trace
    isolation: str  # the value of ``--isolation`` that it belongs to
    mounts: bool  # whether commands see the workspace and mounts at paths that we choose
    contains: bool  # whether all processes of a command die with the first; otherwise strays are searched and killed
    layers: bool  # whether commands can run in a mounted overlay
    doors: bool  # whether commands have their own network, so that they can be restricted to listed hosts

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        """Prepare a command. The stack closes the opened resources once the command has ended."""
        ...

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        """Return the command's exit code (128 + N for signal N), or None if the sandbox itself was killed.

        Raise SetUpFailed if the command never started.
        """
        ...


def line_of_life(stack: ExitStack) -> int:
    """Return the read end of a pipe that closes when this process dies, for ``limited``."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)  # no other process has the write end
    stack.callback(os.close, read_end)
    stack.callback(os.close, write_end)
    return read_end


def report_of_left(seat: Seat, stack: ExitStack, floor: int = 2) -> tuple[int, int, tuple[int, ...]]:
    """Return the ends of a pipe for the report of processes left behind, or -1 twice, and what the child inherits.

    The write end gets a higher number than ``floor``.
    """
    if not seat.reports_left:
        return -1, -1, ()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    stack.callback(os.close, read_end)
    os.set_blocking(read_end, False)
    moved = fcntl.fcntl(write_end, fcntl.F_DUPFD_CLOEXEC, floor + 1)
    os.close(write_end)
    stack.callback(os.close, moved)
    return read_end, moved, (moved,)


# Prints a character for each process that is left, except the sandbox's first one and this shell. The parent of a
# process that was put in from outside, as ``bound_processes`` does, is 0.
_REPORT = (
    "for p in /proc/[0-9]*; do p=${{p#/proc/}}; [ $p = 1 ] || [ $p = $$ ] && continue; "
    'read -r s </proc/$p/stat || continue; case "${{s##*) }}" in [ZX]*|?\\ 0\\ *) continue; esac; '
    "printf x; done >&{left} 2>/dev/null; exit $code"
)


def limited(
    command: str,
    profile: Profile,
    *,
    count_processes: bool,
    life: int = -1,
    drop: tuple[int, ...] = (),
    folder: str = "",
    starts: tuple[str, ...] = ("/bin/bash",),
    shell: tuple[str, ...] = ("/bin/bash", "-c"),
    exports: Mapping[str, str] = MappingProxyType({}),
    report_fd: int = -1,
) -> tuple[str, ...]:
    """Wrap a command in its per-process limits.

    RLIMIT_DATA is used instead of RLIMIT_AS, because runtimes such as java and node reserve large address spaces.
    RLIMIT_NPROC is only used if a user namespace has its own count; otherwise it would count all of the user's
    processes.

    Args:
        life: If this pipe has closed, stackmem is dead and the command does not start. Afterwards all processes of the
            sandbox die with their parents; a parent that was already dead would not trigger that.
        drop: Descriptors to close before the command starts, like ``life``.
        folder: As in ``Seat``.
        starts: Arguments that start the bash that sets the limits.
        shell: The shell that runs the command.
        exports: Variables of the command only. They come from a third party, so none of our programs runs with them.
        report_fd: Write end of the pipe for the report of processes that the command leaves behind, or -1.
    """
    limits = [
        "ulimit -c 0",
        f"ulimit -n {profile.open_files}",
        f"ulimit -f {profile.file_mib * 1024}",
        f"ulimit -d {profile.process_memory_mib * 1024}",
    ]
    if count_processes:
        limits.append(f"ulimit -u {profile.process_limit}")
    alive = f"read -t 0 -u {life} && exit 1; exec {life}<&-; " if life >= 0 else ""  # readable means that it has closed
    alive += "".join(f"exec {fd}<&-; " for fd in drop)
    alive += f"cd -- {shlex.quote(folder)}; " if folder else ""  # if the folder is gone, start in the workspace
    own = "".join(f"export {name}={shlex.quote(value)}; " for name, value in exports.items())
    script = "{ " + "; ".join(limits) + f"; echo 1000 >/proc/self/oom_score_adj; {alive}}} 2>/dev/null; {own}"
    # The shell prints when a signal ends the command; this must not be in the output.
    run = 'exec "$@"' if report_fd < 0 else f'{{ "$@" 2>&8 8>&- {report_fd}>&-; }} 8>&2 2>/dev/null; code=$?; '
    script += run if report_fd < 0 else run + _REPORT.format(left=report_fd)
    return (*starts, "-c", script, "sh", *shell, command)


def process_numbers(profile: Profile) -> int:
    """Return how many process numbers a command's namespace shall have, or 0 to leave the machine's number.

    The kernel does not apply RLIMIT_NPROC to root, so a fork bomb of root can grow faster than the watchdog counts it.
    Since Linux 6.14 each process namespace has its own ``pid_max``. Before, the file sets that of the machine. The
    number leaves room for the watchdog, which names the limit, and for 300 numbers that the kernel reserves.
    """
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if os.geteuid() != 0 or release is None or (int(release[1]), int(release[2])) < (6, 14):
        return 0
    return 300 + 2 * profile.process_limit


def bound_processes(inside: int, numbers: int) -> None:
    """Set how many process numbers the namespace of a process has. It does nothing if the process has ended.

    ``inside`` is a process of the namespace, by its number outside.
    """
    script = f"echo {numbers} >/proc/sys/kernel/pid_max"
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["nsenter", f"--target={inside}", "--pid", "/bin/sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            timeout=_BOUND_SECONDS, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )  # fmt: skip


def host_path(path: str, mounts: tuple[Mount, ...]) -> str:
    """Return the host path of a path inside the sandbox, for levels that cannot mount."""
    for mount in sorted(mounts, key=lambda each: -len(each.inside)):
        if Path(path).is_relative_to(mount.inside):
            return str(Path(mount.host) / Path(path).relative_to(mount.inside))
    return path
