"""Services beside a workspace in an image: each in a root of its own, on its loopback, until it closes."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from stackmem.core.text import tail
from stackmem.errors import WorkspaceError
from stackmem.workspace.clip import clean
from stackmem.workspace.command import CommandEnd, run
from stackmem.workspace.isolation.launch import Seat
from stackmem.workspace.isolation.rooted import Rooted
from stackmem.workspace.overlay.view import folder_view
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import Toolchain

from .root import ImageRoot, open_root
from .store import Image, ImageStore

_FOREVER = float(1 << 30)
_UP_SECONDS, _ASK_SECONDS, _END_SECONDS, _PAUSE = 60.0, 10.0, 20.0, 0.2
_LISTENS = 'while read -r _ _ _ state _; do [ "$state" = 0A ] && exit 0; done </proc/net/tcp; exit 1'
"""Of a service without a health check: whether anything listens on the loopback."""


class _ServiceThread(Struct):
    name: str
    thread: threading.Thread
    ends: list[CommandEnd | WorkspaceError]


def start_services(
    store: ImageStore, services: Mapping[str, Image], main: ImageRoot, places: tuple[Path, Path | None],
    profile: Profile, names: tuple[str, ...], stack: ExitStack,
) -> None:  # fmt: skip
    """Start services one after another, each once the one before it can be used; the stack ends them.

    Args:
        places: Where their roots keep what they write, and where another workspace kept it, to be seen and not changed.

    Raises:
        WorkspaceError: One of them does not come up.
    """
    own, seen = places
    stop_read, stop_write = os.pipe2(os.O_CLOEXEC)
    stack.callback(os.close, stop_read)
    started: list[_ServiceThread] = []
    held = stack.enter_context(ExitStack())  # what the threads of the services work with, until they have ended
    stack.callback(_end, started)
    stack.callback(os.close, stop_write)
    for name, image in services.items():
        written = seen / name / "upper" if seen else None
        below = (written,) if written is not None and written.is_dir() else ()
        root = open_root(store, image, own / name, profile.network, (), below, within=main, names=names)
        held.callback(root.close)
        view = folder_view(own / name)
        held.callback(view.close)
        seat = Seat(
            own / name, view.fd, image.config.workdir, profile, (), {}, Toolchain("/usr", "/usr"), own, binds_git=False
        )
        started.append(_start(name, Rooted(root), seat, shlex.join(image.config.command), stop_read))
        _wait(started[-1], Rooted(root), seat, image.config.health or _LISTENS, bool(image.config.health))


def _start(name: str, level: Rooted, seat: Seat, command: str, stop: int) -> _ServiceThread:
    ends: list[CommandEnd | WorkspaceError] = []

    def work() -> None:
        try:
            ends.append(run(level, seat, f"exec {command}" if command else "exit 1", _FOREVER, stop=stop))
        except WorkspaceError as error:
            ends.append(error)

    thread = threading.Thread(target=work, name=f"service {name}", daemon=True)
    thread.start()
    return _ServiceThread(name, thread, ends)


def _wait(running: _ServiceThread, level: Rooted, seat: Seat, question: str, checked: bool) -> None:
    deadline = time.monotonic() + _UP_SECONDS
    while time.monotonic() < deadline:
        if running.ends:
            raise WorkspaceError(f"the service {running.name} ended: {_said(running.ends[0])}")
        if run(level, seat, question, _ASK_SECONDS).exit_code == 0:
            return
        time.sleep(_PAUSE)
    what = "its health check does not pass" if checked else "nothing listens on the loopback"
    raise WorkspaceError(f"the service {running.name} did not come up within {_UP_SECONDS:g} s: {what}")


def _said(end: CommandEnd | WorkspaceError) -> str:
    if isinstance(end, WorkspaceError):
        return str(end)
    text = tail(clean(b"".join(end.capture.parts())), 10, 600).strip()
    return f"{end.reason or f'exit {end.exit_code}'}: {text or 'it said nothing'}"


def _end(started: list[_ServiceThread]) -> None:
    for each in started:
        each.thread.join(_END_SECONDS)
