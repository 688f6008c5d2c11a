"""Overlays over folders that stay unchanged: writes go to a separate folder, using the kernel's overlayfs.

No process stays behind: a helper mounts in its own namespaces, passes them back as descriptors, and ends.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.clip import shown_name

from . import helper, refresher
from .view import WorkspaceView

# passed as text, because the file may not be readable for the user who runs it
_HELPER = Path(helper.__file__).read_text("utf-8")
_REFRESHER = Path(refresher.__file__).read_text("utf-8")
_SECONDS = 20


class OverlayPlaces(Struct, frozen=True):
    """Folders of an overlay. On the host, all except ``upper`` are empty."""

    upper: Path  # receives all writes
    work: Path  # on the same file system, for use by the kernel
    hide: Path  # mount point of the whiteouts
    view: Path  # mount point of the merged files
    top: Path | None = None  # a second read-only folder on top of the first


class MountOrder(Struct, frozen=True):
    """What to bind into a merged folder, see ``helper``."""

    binds: tuple[tuple[str, str, bool], ...] = ()
    pins: tuple[str, ...] = ()
    port: int | None = None


def mount_overlay(folder: Path, hidden: Iterable[bytes], places: OverlayPlaces) -> WorkspaceView:
    """Mount a folder, without the ``hidden`` paths, under a writable layer. ``hidden`` must be sorted.

    Raise WorkspaceError if the kernel does not support or allow it. No mount is left behind.
    """
    layers = (places.top, folder) if places.top else (folder,)
    try:
        fds = _mounted((places.hide, places.upper, places.work, places.view, *layers), hidden)
    except OSError as error:
        raise WorkspaceError(f"no overlay can be mounted ({error}); run stackmem doctor") from error
    return _view(places.view, fds)


def mount_root(layers: tuple[Path, ...], places: OverlayPlaces, order: MountOrder) -> tuple[WorkspaceView, int]:
    """Mount a root over folders, topmost first. Return it with the listening socket of its network, or -1.

    Raise WorkspaceError as ``mount_overlay`` does.
    """
    folders = (places.hide, places.upper, places.work, places.view, *layers)
    try:
        merged, mounts, *rest = _mounted(folders, (), structs.asdict(order))
    except OSError as error:
        raise WorkspaceError(f"no overlay can be mounted ({error}); run stackmem doctor") from error
    listener = rest.pop() if order.port else -1
    network = (("net", rest.pop()),) if order.port is not None else ()
    user = (("user", rest.pop()),) if rest else ()
    return WorkspaceView(places.view, merged, (*user, *network, ("mount", mounts))), listener


def make_network(user: int, port: int) -> tuple[dict[str, int], int]:
    """Create a network namespace with only a loopback.

    Raise OSError if it cannot be created.

    Args:
        user: Descriptor of the user namespace that shall own it, or -1.
        port: Port to listen at, or 0.

    Returns:
        The descriptors of new namespaces by kind, and the listening socket or -1.
    """
    fds = _mounted((), (), {"user": user, "port": port}, (user,) if user >= 0 else ())
    listener = fds.pop() if port else -1
    kinds = ("user", "net")[-len(fds) :]
    return dict(zip(kinds, fds, strict=True)), listener


def make_private_network(port: int, hide: Iterable[str]) -> tuple[WorkspaceView, int]:
    """Create a network namespace that programs started by ``entered`` cannot leave, even as root.

    Raise OSError if they cannot be created.

    Args:
        port: Port to listen at inside.
        hide: Paths that these programs find as empty devices, for example sockets.

    Returns:
        The namespaces, and the listening socket.
    """
    mounts, user, network, listener = _mounted((), (), {"user": -1, "port": port, "hide": list(hide)})
    return WorkspaceView(Path("/"), -1, (("user", user), ("net", network), ("mount", mounts))), listener


def show_read_only(folder: Path, others: Iterable[tuple[Path, bytes]]) -> WorkspaceView:
    """Mount other folders read-only at the paths of empty folders in ``folder``.

    Raise WorkspaceError if the kernel does not support or allow it. No mount is left behind.
    """
    items = [part for other, path in others for part in (os.fsencode(other), path)]
    try:
        fds = _mounted((folder,), items)
    except OSError as error:
        raise WorkspaceError(f"no folder can be mounted in {folder} ({error}); run stackmem doctor") from error
    view = _view(folder, fds)
    view.layered = False
    return view


def refresh(view: WorkspaceView) -> None:
    """Let an overlay show what changed in its lower folders, whose names it has cached."""
    if not (view.namespaces and view.layered):
        return
    command = (usable_python(), "-I", "-S", "-c", _REFRESHER, os.fspath(view.root), *map(str, view.fds))
    try:
        done = subprocess.run(command, pass_fds=view.fds, capture_output=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkspaceError(f"the overlay cannot be refreshed ({error}); resume the run") from error
    if done.returncode:
        reason = shown_name(done.stderr.strip().split(b"\n")[-1])[:200]
        raise WorkspaceError(f"the overlay cannot be refreshed ({reason}); resume the run")


def _view(root: Path, fds: list[int]) -> WorkspaceView:
    merged, *namespaces = fds
    kinds = ("mount", "user")[: len(namespaces)]
    # The user namespace must be entered first, because it owns the mount namespace.
    return WorkspaceView(root, merged, tuple(reversed(list(zip(kinds, namespaces, strict=True)))))


def _mounted(
    places: Iterable[Path],
    items: Iterable[bytes],
    order: Mapping[str, Any] = structs.asdict(MountOrder()),
    inherited: tuple[int, ...] = (),
) -> list[int]:
    """Run the helper and return its descriptors. Raises ``OSError`` if it cannot mount."""
    own_end, helper_end = socket.socketpair()
    with own_end, helper_end:
        own_end.settimeout(_SECONDS)
        said_order = json.dumps(order)
        command = (usable_python(), "-I", "-S", "-c", _HELPER, str(helper_end.fileno()), said_order, *map(str, places))
        try:
            done = subprocess.run(
                command,
                input=b"".join(path + b"\0" for path in items), pass_fds=(helper_end.fileno(), *inherited),
                capture_output=True, check=False, timeout=_SECONDS, process_group=0,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise OSError(str(error)) from error
        helper_end.close()
        reply, fds, _, _ = socket.recv_fds(own_end, 1024, 5)
    if not fds:
        raise OSError(shown_name(reply or done.stderr.strip().split(b"\n")[-1])[:200])
    return fds


def usable_python() -> str:
    """Return an interpreter for helper programs: our own, unless dropped privileges made it inaccessible."""
    own = os.path.realpath(sys.executable)
    return own if os.access(own, os.X_OK) else "/usr/bin/python3"


def is_whiteout(status: os.stat_result) -> bool:
    """Return whether this is a whiteout, the character device 0:0 that marks a deleted lower file."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
