"""The bubblewrap level with the root file system of an image instead of this machine's programs.

Rule 1: The whole root is writable, so no mount of a command may be below something that an earlier command could have
    replaced by a link. The mounts of a workspace are created with the root (see ``root``). The mounts created
    here are directly below ``/``; they are in use while a command runs, so they cannot be replaced.
Rule 2: The image's variables come from a third party; only the image's own programs run with them.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from subprocess import Popen

from stackmem.workspace.egress.door import Start, start_through
from stackmem.workspace.environment import SYSTEM_PATH, build_environment
from stackmem.workspace.isolation.bubblewrap import (
    find_bwrap,
    guarded_git,
    joined,
    memory_file,
    namespaces,
    reported,
    supervise,
)
from stackmem.workspace.isolation.launch import CommandLaunch, Seat, limited, line_of_life
from stackmem.workspace.isolation.seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, build_filter

from .root import ImageRoot

_ROOT_MAY = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_NET_BIND_SERVICE")
"""Capabilities that installers and services expect as root. They only affect files and a network inside the sandbox."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_READ_ONLY = {"UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "GROUPS"}


class Rooted:
    """Bubblewrap over a mounted root, which its owner must close."""

    name = "bubblewrap (image)"
    isolation = "bubblewrap"
    mounts = True
    contains = True
    layers = True
    doors = True
    jobs = True
    own_network = True  # commands share the network of the root

    def __init__(self, root: ImageRoot) -> None:
        self._root = root

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        root, image = self._root, self._root.image
        program = find_bwrap(seat.root)
        families = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
        one_user = image.uid == 0
        bpf = memory_file(stack, "seccomp", build_filter(families=families, tracing=True, one_user=one_user))
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, status_read)
        stack.callback(os.close, status_write)
        git_fds, git = guarded_git(seat.fd, seat.path, stack) if seat.binds_git else ((), ())
        words = [
            *namespaces(program, network=True, uid=image.uid),
            *(word for each in (_ROOT_MAY if one_user else ()) for word in ("--cap-add", each)),
            "--bind-fd", str(root.view.fd), "/", "--proc", "/proc",
            *(("--remount-ro", "/proc") if os.geteuid() == 0 else ()),
            "--dev", "/dev", "--perms", "1777", "--size", str(seat.profile.shm_mib << 20), "--tmpfs", "/dev/shm",  # noqa: S108
            "--remount-ro", "/dev", *git, "--chdir", seat.path,
            "--seccomp", str(bpf), "--json-status-fd", str(status_write),
        ]  # fmt: skip
        args = memory_file(stack, "args", joined(words))
        life = line_of_life(stack)
        drop = (status_read, seat.fd, root.view.fd, *root.fds)
        inner = limited(
            command, seat.profile, folder=seat.place, count_processes=True, life=life, drop=drop,
            starts=root.starts, shell=image.shell, exports=self._exports(seat),
        )  # fmt: skip
        environ = build_environment(path=(), home=image.home, tmp="/tmp", granted=seat.profile.env, caller=os.environ)  # noqa: S108
        start = start_through(seat.network_list, Start(inner, environ), root.listener, stack)
        return CommandLaunch(
            argv=root.entered(program, "--args", str(args), "--", *start.argv),
            environ=start.environ,
            cwd="/",
            fds=(args, bpf, seat.fd, root.view.fd, status_read, status_write, life, *git_fds, *root.fds),
            status_fd=status_read,
            door=start.door,
            renames=supervise(program, root.view, stack),
        )

    def _exports(self, seat: Seat) -> dict[str, str]:
        """Return the image's variables, overridden by those of the command."""
        image = self._root.image
        user = "root" if image.uid == 0 else image.config.user.partition(":")[0]
        own = {"PATH": ":".join(SYSTEM_PATH), "HOME": image.home, "USER": user, "LOGNAME": user}
        variables = {**own, **image.config.env, **seat.environ}
        return {name: value for name, value in variables.items() if _NAME.fullmatch(name) and name not in _READ_ONLY}

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        return reported(process, status)
