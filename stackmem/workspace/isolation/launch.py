"""What a level is asked, and what it answers: how to start one command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from stackmem.errors import WorkspaceError
from stackmem.workspace.egress.door import Door
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.python import Toolchain


class SetUpFailed(WorkspaceError):  # noqa: N818 - a finding, as stackmem.errors names its own
    """The sandbox could not be made, so the command never ran."""


class Seat(Struct, frozen=True):
    """Where commands run.

    Attributes:
        fd: The workspace folder as it was opened (O_PATH); a level that can, mounts this and not the path.
        path: The workspace as commands see it.
        environ: Variables of the command, on top of the built ones. Their author may be a stranger, so no program of
            the host that makes the sandbox ever runs with them.
        skeleton: The folder that stands as ``/etc``.
        hidden: Folders of the host that commands never see into, where the level can mount.
        binds_git: A ``.git`` is mounted onto itself, so that a command can neither move it nor plant hooks in it.
        place: The folder in it where commands begin, relative; empty for the workspace itself.
        first: Folders that stand before all others on PATH, as commands see them.
        view: Where the folder is seen, where only namespaces of its own have it.
        network_list: What commands reach through a door of their own; None where the profile says what they reach.
    """

    root: Path
    fd: int
    path: str
    profile: Profile
    mounts: tuple[Mount, ...]
    environ: Mapping[str, str]
    toolchain: Toolchain
    skeleton: Path
    hidden: tuple[Path, ...] = ()
    binds_git: bool = True
    first: tuple[str, ...] = ()
    place: str = ""
    view: WorkspaceView | None = None
    network_list: NetworkList | None = None


class CommandLaunch(Struct, frozen=True):
    """One command, ready to start.

    Attributes:
        argv: The command wrapped into its limits and its sandbox.
        fds: Descriptors the child inherits; whoever made the launch closes them through its stack.
        status_fd: Read end of the sandbox's own reports, or -1.
        confinement: Restrictions the starting thread takes upon itself first; None starts it freely.
        door: The way out of the command's network; None where it has none, or the host's.
    """

    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str
    fds: tuple[int, ...] = ()
    status_fd: int = -1
    confinement: bytes | None = None
    door: Door | None = None


class Level(Protocol):
    """One way to isolate commands.

    Attributes:
        name: As the person, the model and the trace read it.
        isolation: The choice of ``--isolation`` it belongs to.
        mounts: Commands see the workspace and its mounts at paths of our choosing.
        contains: Whatever a command starts dies with its first process; else strays are hunted down.
        layers: Commands can be started where a layer over a folder is mounted.
        doors: Commands have a network of their own, so that they can be kept to listed hosts.
    """

    name: str
    isolation: str
    mounts: bool
    contains: bool
    layers: bool
    doors: bool

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        """Prepare a command; the stack closes what it opened once the command has ended."""
        ...

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        """Tell the command's exit code (128 + N for signal N), or None when the sandbox itself was killed.

        Raises:
            SetUpFailed: The command never started.
        """
        ...


def line_of_life(stack: ExitStack) -> int:
    """The read end of a pipe that ends when this process does, for ``limited``."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)  # nobody else has the write end
    stack.callback(os.close, read_end)
    stack.callback(os.close, write_end)
    return read_end


def limited(
    command: str,
    profile: Profile,
    *,
    count_processes: bool,
    life: int = -1,
    drop: tuple[int, ...] = (),
    place: str = "",
    starts: tuple[str, ...] = ("/bin/bash",),
    shell: tuple[str, ...] = ("/bin/bash", "-c"),
    exports: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Wrap a command into its per-process limits.

    RLIMIT_DATA and not RLIMIT_AS: runtimes that reserve address space (java, node, thread stacks) live under it.
    RLIMIT_NPROC only where a user namespace has its own count; elsewhere it would count all the person's processes.

    Args:
        life: Where this pipe has ended the harness is dead, and the command does not begin. From then on all that make
            the sandbox die with their parents, which a harness that was dead before would not have set off.
        drop: Closed before the command begins, as ``life`` is.
        place: As in ``Seat``.
        starts: Words that start the bash which sets the limits.
        shell: What is given the command.
        exports: Variables of the command alone: a stranger wrote them, so no program of ours runs with them.
    """
    limits = [
        "ulimit -c 0",
        f"ulimit -n {profile.open_files}",
        f"ulimit -f {profile.file_mib * 1024}",
        f"ulimit -d {profile.process_memory_mib * 1024}",
    ]
    if count_processes:
        limits.append(f"ulimit -u {profile.process_limit}")
    alive = f"read -t 0 -u {life} && exit 1; exec {life}<&-; " if life >= 0 else ""  # readable: it has ended
    alive += "".join(f"exec {fd}<&-; " for fd in drop)
    alive += f"cd -- {shlex.quote(place)}; " if place else ""  # where it is gone, from the workspace itself
    own = "".join(f"export {name}={shlex.quote(value)}; " for name, value in exports.items())
    script = "{ " + "; ".join(limits) + f'; echo 1000 >/proc/self/oom_score_adj; {alive}}} 2>/dev/null; {own}exec "$@"'
    return (*starts, "-c", script, "sh", *shell, command)


def host_path(path: str, mounts: tuple[Mount, ...]) -> str:
    """Where a path inside the sandbox lies on the host, for levels that cannot mount."""
    for mount in sorted(mounts, key=lambda each: -len(each.inside)):
        if Path(path).is_relative_to(mount.inside):
            return str(Path(mount.host) / Path(path).relative_to(mount.inside))
    return path
