"""The bubblewrap level: all namespaces, an allow-list of mounts, and the system call filter.

Rule 1: Host paths never appear in an argument list; they are passed through a descriptor.
Rule 2: Only ``.git`` and its content are mounted inside the workspace, from descriptors that were opened without
    following links. A mount point below writable files would let commands redirect the mount out of the sandbox
    (CVE-2026-87766).
Rule 3: No ``--new-session``: stackmem itself starts a session, so that killing its process group reaches everything.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from subprocess import Popen

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.egress.door import Start, start_behind, start_through
from stackmem.workspace.environment import build_environment
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount
from stackmem.workspace.python import INSIDE
from stackmem.workspace.renames.supervisor import RenameSupervisor

from .cover import places_to_cover
from .launch import CommandLaunch, Seat, SetUpFailed, limited, line_of_life, report_of_left
from .seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, build_filter
from .skeleton import mounted_names

CANDIDATES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
_NEEDED = ("--args", "--bind-fd", "--ro-bind-fd", "--size", "--perms", "--json-status-fd", "--remount-ro", "--seccomp")
_HOME = "/tmp/home"  # noqa: S108 - inside the sandbox, where /tmp is private to one command


def find_bwrap(workspace: Path, candidates: tuple[str, ...] = CANDIDATES) -> str:
    """Return the path of a trustworthy bubblewrap that supports all needed options.

    Raise WorkspaceError if no candidate is usable. The message gives the reason for each.
    """
    refused = []
    for path in candidates:
        reason = _distrust(Path(path), workspace)
        if not reason:
            missing = [option for option in _NEEDED if option not in _help(path)]
            reason = f"is too old (no {', '.join(missing)})" if missing else ""
        if not reason:
            return path
        refused.append(f"{path} {reason}")
    raise WorkspaceError(f"no usable bubblewrap: {'; '.join(refused)}; install it (apt install bubblewrap)")


def _distrust(path: Path, workspace: Path) -> str:
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except OSError:
        return "does not exist"
    if not stat.S_ISREG(status.st_mode) or not os.access(real, os.X_OK):
        return "is not an executable program"
    # A program in the workspace may have been written by the agent, and it would run outside of any sandbox.
    if real.is_relative_to(workspace.resolve()):
        return "is in the workspace"
    # A user who can write the folder can replace the program, so the folder is checked too.
    for each in (real, real.parent):
        owner = each.stat()
        if owner.st_uid not in (0, os.geteuid()) or owner.st_mode & 0o022:
            return f"can be changed by other users ({each})"
    return ""


@cache
def _help(path: str) -> str:
    try:
        # An empty environment: no variable of the user may steer the loader of a program that is not trusted yet.
        done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=10, check=False, env={})
    except (OSError, subprocess.SubprocessError) as error:
        raise WorkspaceError(f"{path} --help failed ({error}); reinstall bubblewrap") from error
    return done.stdout + done.stderr


class _Setting(Struct, frozen=True):
    """Settings shared by all commands of one workspace."""

    seat: Seat
    there: tuple[bool, ...]  # which of the hidden folders exist
    program: str
    opening: bytes  # bubblewrap arguments up to the workspace, encoded for passing
    closing: tuple[str, ...]  # arguments after those for ``.git``
    filter: bytes  # system call filter


class Bubblewrap:
    isolation = "bubblewrap"
    mounts = True
    contains = True
    layers = True
    doors = True
    jobs = True

    def __init__(self, *, proc: bool = True, candidates: tuple[str, ...] = CANDIDATES) -> None:
        """With ``proc=False``, ``/proc`` is an empty folder, for containers that mask their own."""
        self.name = "bubblewrap" if proc else "bubblewrap (no /proc)"
        self._proc = proc
        self._candidates = candidates
        self._kept: _Setting | None = None

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        setting = self._setting(seat)
        bpf = memory_file(stack, "seccomp", setting.filter)
        # bubblewrap reports through a separate pipe, because a command could print the same text to its output.
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, status_read)
        stack.callback(os.close, status_write)
        git_fds, git = guarded_git(seat.fd, seat.path, stack) if seat.binds_git else ((), ())
        own = joined([*git, *setting.closing, "--seccomp", str(bpf), "--json-status-fd", str(status_write)])
        # Through a descriptor, not the command line: other users can read that, and its length is limited.
        args = memory_file(stack, "args", setting.opening + own)
        life = line_of_life(stack)
        # bubblewrap also gets the read end of its status pipe. Otherwise it would die of SIGPIPE if stackmem has died,
        # and the process that waits to become the sandbox would wait forever. The command inherits none of our
        # namespaces.
        entered = seat.entry.fds if seat.entry else ()
        drop = (status_read, *entered)
        left_read, report_fd, left_fds = report_of_left(seat, stack)
        inner = limited(
            command, seat.profile, folder=seat.place, count_processes=True, life=life, drop=drop, report_fd=report_fd
        )
        environ = build_environment(
            path=(*seat.first, f"{INSIDE}/bin", *seat.profile.path),
            home=_HOME,
            tmp="/tmp",  # noqa: S108 - inside the sandbox
            granted=seat.profile.env,
            caller=os.environ,
            offline=seat.profile.network == "none" and seat.network_list is None,
        )
        start = Start(inner, environ)
        if seat.shared is not None and not seat.lasting:
            start = start_through(seat.network_list, start, seat.shared.listener, stack)
        else:
            start = start_behind(seat.network_list, start, f"{INSIDE}/bin/python", stack, port=seat.proxy_port)
        argv = (setting.program, "--args", str(args), "--", *start.argv)
        return CommandLaunch(
            argv=seat.entry.entered(*argv) if seat.entry else argv,
            environ=start.environ,
            cwd="/",
            fds=(
                args,
                bpf,
                seat.fd,
                status_read,
                status_write,
                life,
                *git_fds,
                *entered,
                *start.fds,
                *left_fds,
            ),
            status_fd=status_read,
            left_fd=left_read,
            door=start.door,
            renames=supervise(setting.program, seat.view, stack),
        )

    def _setting(self, seat: Seat) -> _Setting:
        """Return the settings of the previous command, unless a hidden folder has appeared or disappeared."""
        # bubblewrap fails if it has to cover a missing folder, so the settings depend on which of them exist.
        there = tuple(os.path.isdir(path) for path in seat.hidden)  # noqa: PTH112 - same check as in cover
        setting = self._kept
        if setting is None or setting.seat is not seat or setting.there != there:
            self._kept = setting = self._new_setting(seat, there)
        return setting

    def _new_setting(self, seat: Seat, there: tuple[bool, ...]) -> _Setting:
        program = find_bwrap(seat.root, self._candidates)
        check_destinations(seat)
        families = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
        opening = [
            *namespaces(program, network=seat.profile.network == "host" or seat.shared is not None),
            *_system(seat),
            *self._kernel(seat),
            *_binds((*seat.toolchain.mounts(), *seat.profile.mounts, *seat.mounts)),
            *_covers(seat),
            "--bind-fd", str(seat.fd), seat.path,
        ]  # fmt: skip
        variables = (word for name, value in seat.environ.items() for word in ("--setenv", name, value))
        # Last, because bubblewrap creates the mount points of all earlier mounts in the root.
        closing = ("--remount-ro", "/", "--chdir", seat.path, *variables)
        # NUL separates the arguments in the file: a value with one could add options to the sandbox.
        if any("\0" in each for each in (*opening, *closing)):
            raise WorkspaceError("a variable or a mount of the sandbox contains a NUL character; remove it")
        return _Setting(seat, there, program, joined(opening), closing, build_filter(families=families, tracing=True))

    def _kernel(self, seat: Seat) -> list[str]:
        profile = seat.profile
        proc = ["--proc", "/proc"] if self._proc else ["--tmpfs", "/proc"]
        # Files below /proc/sys and /proc/irq belong to root; a sandbox started by root could write them otherwise.
        sealed = ["--remount-ro", "/proc"] if not self._proc or os.geteuid() == 0 else []
        return [
            *proc, *sealed, "--dev", "/dev",
            "--perms", "1777", "--size", str(profile.shm_mib << 20), "--tmpfs", "/dev/shm",  # noqa: S108
            "--remount-ro", "/dev",  # otherwise its size would be unlimited
            "--perms", "1777", "--size", str(profile.tmp_mib << 20), "--tmpfs", "/tmp",  # noqa: S108
            "--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--dir", _HOME, "--dir", "/run",  # noqa: S108
        ]  # fmt: skip

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        return reported(process, status)


def supervise(program: str, view: WorkspaceView | None, stack: ExitStack) -> RenameSupervisor | None:
    """Supervise the renames of a command if it sees an overlay. A setuid bubblewrap would lose its rights with that."""
    if view is None or not (view.namespaces and view.layered) or Path(program).stat().st_mode & stat.S_ISUID:
        return None
    return RenameSupervisor(view, stack)


def reported(process: Popen[bytes], status: bytes) -> int | None:
    """Return the exit code that bubblewrap reports; see ``Level.ran``."""
    for line in status.splitlines():
        with suppress(ValueError):  # incomplete line of a killed writer
            report = json.loads(line)
            if "exit-code" in report:
                return int(report["exit-code"])
    # Killed by a signal, from us or from a limit, so there is no exit code of the command.
    if process.returncode < 0:
        return None
    raise SetUpFailed(f"bubblewrap ended with {process.returncode} before the command ran")


def namespaces(program: str, *, network: bool, uid: int = 1000) -> list[str]:
    """Return the arguments for new namespaces; ``network`` keeps the current network namespace."""
    nested = ["--disable-userns"] if "--disable-userns" in _help(program) else []  # also refused by the filter
    return [
        # --unshare-all only tries to create a user namespace; --unshare-user fails if there is none.
        "--unshare-all", "--unshare-user", *nested, *(["--share-net"] if network else []),
        "--uid", str(uid), "--gid", str(uid), "--cap-drop", "ALL", "--die-with-parent", "--hostname", "sandbox",
    ]  # fmt: skip


def _system(seat: Seat) -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            # Recreated as links: on merged systems /bin is a link to usr/bin, and a bind would follow it.
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    # Not the own /etc of the machine: it has user names, host names, and keys of services.
    words += ["--ro-bind", str(seat.skeleton), "/etc"]
    for name in mounted_names():
        words += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    return words


def _binds(mounts: tuple[Mount, ...]) -> list[str]:
    words = []
    # Outer folders first: mounted later, they would hide what was mounted inside them.
    for mount in sorted(mounts, key=lambda each: each.inside.count("/")):
        words += ["--bind" if mount.writable else "--ro-bind", mount.host, mount.inside]
    return words


def _covers(seat: Seat) -> list[str]:
    mounts = (*seat.toolchain.mounts(), *seat.profile.mounts, *seat.mounts)
    pairs = [("/usr", "/usr"), *((mount.host, mount.inside) for mount in mounts)]
    # One page, the smallest size: without a size, a tmpfs may take half of the memory.
    empty = ("--perms", "0755", "--size", "4096", "--tmpfs")
    return [word for path in places_to_cover(seat.hidden, pairs) for word in (*empty, path, "--remount-ro", path)]


def check_destinations(seat: Seat) -> None:
    """Raise if a mount conflicts with the sandbox's own folders, or is below files that commands can write."""
    granted = (*seat.toolchain.mounts(), *seat.profile.mounts, *seat.mounts)
    places = [(mount.inside, mount.writable) for mount in granted] + [(seat.path, True)]
    for path, _ in places:
        target = Path(path)
        if target == Path("/") or any(target == Path(own) or target in Path(own).parents for own in _OWN):
            raise WorkspaceError(
                f"{path} cannot be a mount in the sandbox, which needs that folder; choose another one"
            )
        if any(target.is_relative_to(own) for own in ("/proc", "/dev", "/etc", "/sys", _HOME)):
            raise WorkspaceError(f"{path} is in a folder that the sandbox creates; choose another one")
    for index, (path, _) in enumerate(places):
        for other, (outer, writable) in enumerate(places):
            if index != other and Path(path).is_relative_to(outer) and (writable or path == outer):
                raise WorkspaceError(
                    f"{path} would be mounted inside {outer}, which commands can write; choose another folder"
                )


_OWN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/run", "/tmp", "/var/tmp", _HOME, "/etc", "/proc", "/dev")  # noqa: S108


def joined(words: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(each) + b"\0" for each in words)


def memory_file(stack: ExitStack, name: str, content: bytes) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    os.write(fd, content)
    # The reader shares the position with this descriptor and would otherwise start at the end.
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def guarded_git(workspace: int, path: str, stack: ExitStack) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Bind ``.git`` onto itself, so that it cannot be moved, and its hooks and configuration read-only.

    Otherwise a command could plant a hook that the host's git runs later. Only an existing folder is bound: no link is
    followed, no other file system is entered, nothing is created. A ``.git`` that is a file or link (worktrees,
    submodules) is left as is.

    Returns the descriptors to inherit and the bubblewrap arguments.
    """
    git = _folder(workspace, ".git", stack)
    config = -1 if git < 0 else _config(git, stack)
    if git < 0 or config < 0:
        return (), ()
    sealed = {"config": config, "hooks": _folder(git, "hooks", stack)}
    present = {name: fd for name, fd in sealed.items() if fd >= 0}
    words = [word for name, fd in present.items() for word in ("--ro-bind-fd", str(fd), f"{path}/.git/{name}")]
    return (git, *present.values()), ("--bind-fd", str(git), f"{path}/.git", *words)


def _folder(parent: int, name: str, stack: ExitStack) -> int:
    return _open(parent, name, os.O_DIRECTORY, stack)


def _config(parent: int, stack: ExitStack) -> int:
    fd = _open(parent, "config", 0, stack)
    return fd if fd >= 0 and stat.S_ISREG(os.fstat(fd).st_mode) else -1


def _open(parent: int, name: str, flags: int, stack: ExitStack) -> int:
    """Open a single name. A path component without links cannot leave the parent, and the mount id reveals another
    mount.
    """
    fd = -1
    with suppress(OSError):
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=parent)
        stack.callback(os.close, fd)
        if _mount_number(fd) != _mount_number(parent):  # not the device number, which differs within an overlay
            return -1
    return fd


def _mount_number(fd: int) -> bytes:
    return Path(f"/proc/self/fdinfo/{fd}").read_bytes().partition(b"mnt_id:")[2].split(b"\n")[0]
