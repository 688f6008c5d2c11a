"""The level ``none``: limits and a clean environment, but no isolation.

Its temporary folder, environment and exit codes are shared by all levels in which commands see host paths.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen

from stackmem.workspace.environment import build_environment
from stackmem.workspace.tree import remove_tree

from .launch import CommandLaunch, Seat, host_path, limited


class Bare:
    name = "none"
    isolation = "none"
    mounts = False
    contains = False
    layers = False
    doors = False

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        return CommandLaunch(
            argv=limited(command, seat.profile, folder=seat.place, count_processes=False),
            environ=host_environment(seat, private_tmp(stack)) | dict(seat.environ),
            cwd=f"/proc/self/fd/{seat.fd}",
        )

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        return plain_code(process.returncode)


def private_tmp(stack: ExitStack) -> Path:
    """Create a temporary folder with a home in it, for one command."""
    tmp = Path(tempfile.gettempdir()).resolve() / f"stackmem-tmp-{os.urandom(8).hex()}"
    stack.callback(_remove, tmp)  # registered before it exists, because Ctrl-C may come in between
    tmp.mkdir(mode=0o700)
    (tmp / "home").mkdir()
    return tmp


def _remove(tmp: Path) -> None:
    with suppress(OSError):
        (tmp / "home").rmdir()
        tmp.rmdir()  # most commands leave it empty, and this needs no extra process
    if tmp.exists():
        remove_tree(tmp)


def host_environment(seat: Seat, tmp: Path) -> dict[str, str]:
    """Build the environment for levels without mounts, in which PATH names host folders."""
    mounts = (*seat.profile.mounts, *seat.mounts)
    return build_environment(
        path=(
            *seat.first,
            f"{seat.toolchain.environment}/bin",
            *(host_path(each, mounts) for each in seat.profile.path),
        ),
        home=str(tmp / "home"),
        tmp=str(tmp),
        granted=seat.profile.env,
        caller=os.environ,
    )


def plain_code(code: int) -> int | None:
    """Return the exit code in shell convention, or None after a SIGKILL that we did not send."""
    if code == -9:
        return None
    return 128 - code if code < 0 else code
