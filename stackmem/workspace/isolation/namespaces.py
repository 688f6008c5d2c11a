"""The namespaces level, used without bubblewrap: util-linux creates the namespaces, and Landlock restricts files.

Only a new ``/proc`` is mounted, so commands see host paths.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.egress.door import Start, start_behind, start_through

from . import confine
from .bare import host_environment, plain_code, private_tmp
from .landlock import build_order
from .launch import CommandLaunch, Seat, SetUpFailed, limited, line_of_life, report_of_left
from .seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX

# passed as text, because the file may not be readable for the user who runs it
_HELPER = Path(confine.__file__).read_text("utf-8")
_PROGRAMS = "/usr/sbin:/usr/bin:/sbin:/bin"


class Namespaces:
    name = "namespaces"
    isolation = "namespaces"
    mounts = False
    contains = True
    layers = False
    doors = True
    jobs = True

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        setpriv, unshare = (_program(name) for name in ("setpriv", "unshare"))
        tmp = private_tmp(stack)
        order = os.memfd_create("order", os.MFD_CLOEXEC)
        stack.callback(os.close, order)
        families = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
        own = seat.profile.network != "host"
        fresh = own and seat.shared is None
        grants = build_order(
            seat, tmp, families=families, tracing=True, own_network=own, own_namespaces=True, loopback=fresh
        )
        os.write(order, grants)
        started_read, started_write = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, started_read)
        stack.callback(os.close, started_write)
        life = line_of_life(stack)
        entered = seat.shared.view.fds if seat.shared else ()
        floor = max(order, started_write)  # confine closes all descriptors up to this one
        left_read, report_fd, left_fds = report_of_left(seat, stack, floor)
        inner = limited(
            command, seat.profile, folder=seat.place, count_processes=True, life=life, drop=entered, report_fd=report_fd
        )
        start = Start(inner, host_environment(seat, tmp))
        if seat.shared is not None and not seat.lasting:
            start = start_through(seat.network_list, start, seat.shared.listener, stack)
        else:
            python = seat.toolchain.python()
            start = start_behind(seat.network_list, start, python, stack, floor, seat.proxy_port)
        kinds = ("-U", "-r", "-p", "-f", "-i", *(("-n",) if fresh else ()))
        argv = (
            setpriv, "--pdeathsig", "KILL", unshare, *kinds, "--kill-child", "--mount-proc",
            seat.toolchain.python(), "-I", "-S", "-c", _HELPER, str(order), str(started_write),
            *start.argv,
        )  # fmt: skip
        return CommandLaunch(
            # entering a user namespace clears the signal that setpriv requests, so it comes first
            argv=seat.shared.view.entered(*argv) if seat.shared else argv,
            environ=start.environ,
            cwd=f"/proc/self/fd/{seat.fd}",
            fds=(order, started_write, life, *entered, *start.fds, *left_fds),
            status_fd=started_read,
            left_fd=left_read,
            door=start.door,
        )  # fmt: skip

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        if not status:
            raise SetUpFailed(f"unshare ended with {process.returncode} before the command ran")
        return plain_code(process.returncode)


def _program(name: str) -> str:
    path = shutil.which(name, path=_PROGRAMS)
    if path is None:
        raise WorkspaceError(f"{name} is missing; install util-linux, or bubblewrap for the stronger level")
    return path
