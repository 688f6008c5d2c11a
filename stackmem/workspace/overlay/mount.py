"""A layer over folders that stay as they are: what is written lands in a folder of its own, by the kernel's overlayfs.

No process is left behind: a helper mounts in namespaces of its own, hands them over as descriptors, and ends.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from stackmem.errors import WorkspaceError
from stackmem.workspace.clip import shown_name

from . import helper
from .view import WorkspaceView

_HELPER = Path(helper.__file__).read_text("utf-8")  # handed over as text: its place may be closed to who runs it
_SECONDS = 20


class OverlayPlaces(Struct, frozen=True):
    """Folders of an overlay, all but ``upper`` empty on the host."""

    upper: Path  # holds what is written
    work: Path  # on the same file system, for the kernel alone
    hide: Path  # where whiteouts are mounted
    view: Path  # where all of it is seen
    over: Path | None = None  # a folder that lies over the other one, and is not written either


class MountOrder(Struct, frozen=True):
    """What is bound into a merged folder, as the helper says it."""

    binds: tuple[tuple[str, str, bool], ...] = ()
    pins: tuple[str, ...] = ()
    port: int | None = None


def mount_overlay(folder: Path, hidden: Iterable[bytes], places: OverlayPlaces) -> WorkspaceView:
    """Show the folder without ``hidden``, paths in it in their order, under what is written."""
    below = (places.over, folder) if places.over else (folder,)
    try:
        fds = _mounted((places.hide, places.upper, places.work, places.view, *below), hidden)
    except OSError as error:
        raise WorkspaceError(f"no overlay can be mounted ({error}); run stackmem doctor") from error
    return _view(places.view, fds)


def mount_root(below: tuple[Path, ...], places: OverlayPlaces, order: MountOrder) -> tuple[WorkspaceView, int]:
    """A root over folders, the topmost first, with what is bound into it; and what listens on its network, or -1."""
    folders = (places.hide, places.upper, places.work, places.view, *below)
    try:
        merged, mounts, *rest = _mounted(folders, (), order)
    except OSError as error:
        raise WorkspaceError(f"no overlay can be mounted ({error}); run stackmem doctor") from error
    listener = rest.pop() if order.port else -1
    network = (("net", rest.pop()),) if order.port is not None else ()
    user = (("user", rest.pop()),) if rest else ()
    return WorkspaceView(places.view, merged, (*user, *network, ("mount", mounts))), listener


def show_read_only(folder: Path, others: Iterable[tuple[Path, bytes]]) -> WorkspaceView:
    """Show a folder in which others are seen, each at the path of an empty folder in it, and nobody writes them."""
    given = [part for other, path in others for part in (os.fsencode(other), path)]
    try:
        fds = _mounted((folder,), given)
    except OSError as error:
        raise WorkspaceError(f"no folder can be mounted in {folder} ({error}); run stackmem doctor") from error
    view = _view(folder, fds)
    view.layered = False
    return view


def _view(root: Path, fds: list[int]) -> WorkspaceView:
    merged, *namespaces = fds
    kinds = ("mount", "user")[: len(namespaces)]
    # The user namespace is entered first: it owns the other.
    return WorkspaceView(root, merged, tuple(reversed(list(zip(kinds, namespaces, strict=True)))))


def _mounted(
    places: Iterable[Path],
    given: Iterable[bytes],
    order: MountOrder = MountOrder(),  # noqa: B008 - it is a value
) -> list[int]:
    """What the helper hands over; raises ``OSError`` where it cannot mount."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_SECONDS)
        said_order = json.dumps({"binds": order.binds, "pins": order.pins, "port": order.port})
        command = (_python(), "-I", "-S", "-c", _HELPER, str(theirs.fileno()), said_order, *map(str, places))
        try:
            done = subprocess.run(
                command,
                input=b"".join(path + b"\0" for path in given), pass_fds=(theirs.fileno(),),
                capture_output=True, check=False, timeout=_SECONDS, process_group=0,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise OSError(str(error)) from error
        theirs.close()
        said, fds, _, _ = socket.recv_fds(ours, 1024, 5)
    if not fds:
        raise OSError(shown_name(said or done.stderr.strip().split(b"\n")[-1])[:200])
    return fds


def _python() -> str:
    """An interpreter that we may run: our own, unless it was closed to us by giving up privileges."""
    own = os.path.realpath(sys.executable)
    return own if os.access(own, os.X_OK) else "/usr/bin/python3"


def is_whiteout(status: os.stat_result) -> bool:
    """Whether this is what stands where something of a lower folder is gone: the character device 0:0."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
