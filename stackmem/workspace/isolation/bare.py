"""The level ``none``: limits and a clean environment, and nothing that holds a command back."""

from __future__ import annotations

from contextlib import ExitStack
from subprocess import Popen

from .landlock import host_environment, plain_code, private_tmp
from .launch import CommandLaunch, Seat, limited


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
