"""The landlock level: file access by allow-list, no network, no capabilities; the host's processes stay visible.

The thread that starts the command restricts itself; stackmem stays unrestricted. Nothing is mounted, so commands see
host paths. Stray processes are killed after the command.
"""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

from stackmem.core.errors import WorkspaceError

from .bare import host_environment, plain_code, private_tmp
from .confine import landlock_abi
from .cover import places_to_cover
from .launch import CommandLaunch, Seat, limited, process_numbers
from .seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, build_filter
from .skeleton import copied_names, mounted_names

# Version 3 adds the right to truncate; without it, a file outside could be emptied.
NEEDED_ABI = 3
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc")
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "gai.conf", "host.conf", "gitconfig", "ssl/openssl.cnf")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def build_order(
    seat: Seat,
    tmp: Path,
    *,
    families: tuple[int, ...],
    tracing: bool,
    own_network: bool = False,
    own_namespaces: bool = False,
    loopback: bool = False,
) -> bytes:
    """Return the order for ``confine.apply``: what a command may access.

    Raise WorkspaceError if the kernel does not have Landlock, or its version is too old.

    Args:
        own_network: The command has a network namespace, in which it may use loopback freely.
        own_namespaces: The command has namespaces for mounts, in which folders can be covered, and for IPC.
        loopback: Its network is new, so the loopback must be switched on.
    """
    abi = landlock_abi()
    if abi < NEEDED_ABI:
        raise WorkspaceError(f"the kernel has Landlock version {abi}, {NEEDED_ABI} is needed (Linux 6.2); "
                             "use --isolation none only for commands you trust")  # fmt: skip
    network = seat.profile.network == "host"
    etc = (*copied_names(), *mounted_names(), *_ETC, *(("resolv.conf",) if network else ()))
    readable = [*_SYSTEM, *(f"/etc/{name}" for name in etc), seat.toolchain.prefix, seat.toolchain.environment]
    grants = [(path, "read") for path in readable]
    grants += [(path, "device") for path in _DEVICES]
    grants += [(each.host, "write" if each.writable else "read") for each in (*seat.profile.mounts, *seat.mounts)]
    grants += [(str(seat.root), "write"), (str(tmp), "write")]
    program = build_filter(families=families, tracing=tracing, own_ipc=own_namespaces)
    order = {
        "abi": abi,
        "grants": grants,
        "tcp": not network and not own_network,
        "loopback": loopback,
        "cover": _covered(seat, [path for path, _ in grants]) if own_namespaces else [],
        "environ": dict(seat.environ),
        "scope": True,
        "numbers": process_numbers(seat.profile) if own_namespaces else 0,
        "filter": base64.b64encode(program).decode(),
    }
    return json.dumps(order).encode()


def _covered(seat: Seat, granted: list[str]) -> list[str]:
    needed = (str(seat.root), *(mount.host for mount in seat.mounts))
    return places_to_cover(seat.hidden, [(path, path) for path in granted], needed)


class Landlock:
    name = "landlock"
    isolation = "landlock"
    mounts = False
    contains = False
    layers = False
    doors = False

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        tmp = private_tmp(stack)
        network = (AF_INET, AF_INET6, AF_NETLINK) if seat.profile.network == "host" else ()
        return CommandLaunch(
            argv=limited(command, seat.profile, folder=seat.place, count_processes=False),
            # safe, because the first program is already confined
            environ=host_environment(seat, tmp) | dict(seat.environ),
            cwd=f"/proc/self/fd/{seat.fd}",
            fds=(),
            confinement=build_order(seat, tmp, families=(AF_UNIX, *network), tracing=False),
        )

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        return plain_code(process.returncode)
