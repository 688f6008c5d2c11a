"""The level ``none``: limits and a clean environment, and nothing that holds a command back.

Its temporary folder, its environment and its exit codes are those of every level that shows commands the host's paths.
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
            argv=limited(command, seat.profile, place=seat.place, count_processes=False),
            environ=host_environment(seat, private_tmp(stack)) | dict(seat.environ),
            cwd=f"/proc/self/fd/{seat.fd}",
        )

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        return plain_code(process.returncode)


def private_tmp(stack: ExitStack) -> Path:
    """A temporary folder with a home in it, for one command."""
    tmp = Path(tempfile.gettempdir()).resolve() / f"stackmem-tmp-{os.urandom(8).hex()}"
    stack.callback(_remove, tmp)  # before it is there: Ctrl-C may come between
    tmp.mkdir(mode=0o700)
    (tmp / "home").mkdir()
    return tmp


def _remove(tmp: Path) -> None:
    with suppress(OSError):
        (tmp / "home").rmdir()
        tmp.rmdir()  # most commands leave it empty, and this starts no process
    if tmp.exists():
        remove_tree(tmp)


def host_environment(seat: Seat, tmp: Path) -> dict[str, str]:
    """The built environment where nothing is mounted: PATH names host folders."""
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
    """The exit code as a shell counts it; None after SIGKILL, which was not ours."""
    if code == -9:
        return None
    return 128 - code if code < 0 else code
