"""A layer over folders that stay as they are: what is written lands in a folder of its own, by the kernel's overlayfs.

No process is left behind: a helper mounts in namespaces of its own, hands them over as descriptors, and ends.
"""

from __future__ import annotations

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
    """Folders of an overlay, all but ``upper`` empty on the host.

    Attributes:
        upper: Holds what is written.
        work: On the same file system, for the kernel alone.
        hide: Where whiteouts are mounted.
        view: Where all of it is seen.
        over: A folder that lies over the other one, and is not written either.
    """

    upper: Path
    work: Path
    hide: Path
    view: Path
    over: Path | None = None


def mount_overlay(folder: Path, hidden: Iterable[bytes], places: OverlayPlaces) -> WorkspaceView:
    """Show the folder without ``hidden``, paths in it in their order, under what is written.

    Raises:
        WorkspaceError: The kernel cannot, or may not; nothing is left.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_SECONDS)
        below = (places.over, folder) if places.over else (folder,)
        words = map(str, (places.hide, places.upper, places.work, places.view, *below))
        command = [_python(), "-I", "-S", "-c", _HELPER, str(theirs.fileno()), *words]
        try:
            done = subprocess.run(
                command, input=b"".join(path + b"\0" for path in hidden), pass_fds=(theirs.fileno(),),
                capture_output=True, check=False, timeout=_SECONDS, process_group=0,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkspaceError(f"no overlay can be mounted ({error}); run stackmem doctor") from error
        theirs.close()
        said, fds, _, _ = socket.recv_fds(ours, 1024, 3)
    if not fds:
        why = said or done.stderr.strip().split(b"\n")[-1]
        raise WorkspaceError(f"no overlay can be mounted ({shown_name(why)[:200]}); run stackmem doctor")
    merged, *namespaces = fds
    kinds = ("mount", "user")[: len(namespaces)]
    # The user namespace is entered first: it owns the other.
    return WorkspaceView(places.view, merged, tuple(reversed(list(zip(kinds, namespaces, strict=True)))))


def _python() -> str:
    """An interpreter that we may run: our own, unless it was closed to us by giving up privileges."""
    own = os.path.realpath(sys.executable)
    return own if os.access(own, os.X_OK) else "/usr/bin/python3"


def is_whiteout(status: os.stat_result) -> bool:
    """Whether this is what stands where something of a lower folder is gone: the character device 0:0."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
