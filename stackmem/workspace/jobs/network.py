"""The network of a run with jobs: a loopback that all its commands share, so that a command reaches the port of a job.

It exists in namespaces that only descriptors and processes keep alive, so it disappears with stackmem.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.egress.door import PORT
from stackmem.workspace.overlay.mount import make_network
from stackmem.workspace.overlay.view import WorkspaceView


class RunNetwork(Struct):
    """A network namespace with only a loopback."""

    view: WorkspaceView  # enters the namespaces of the workspace, if it has any, and the network
    listener: int = -1  # socket that listens there at the port of the proxy; -1 without listed hosts

    def close(self) -> None:
        for fd in (*self.view.fds, self.listener):
            if fd >= 0:
                os.close(fd)
        self.view.namespaces, self.listener = (), -1


def open_network(view: WorkspaceView | None, *, listed: bool) -> RunNetwork:
    """Create a network for the commands of a workspace.

    Args:
        view: How the commands see the workspace.
        listed: Whether they can reach listed hosts through a proxy.
    """
    own = {kind: os.dup(fd) for kind, fd in (view.namespaces if view else ())}
    try:
        fds, listener = make_network(own.get("user", -1), PORT if listed else 0)
    except OSError as error:
        for fd in own.values():
            os.close(fd)
        raise WorkspaceError(f"no network for jobs can be created ({error}); run stackmem doctor") from error
    namespaces = {**own, **fds}
    # The user namespace must be entered first, because it owns the others.
    order = tuple((kind, namespaces[kind]) for kind in ("user", "net", "mount") if kind in namespaces)
    root, layered = (view.root, view.layered) if view else (Path("/"), False)
    return RunNetwork(WorkspaceView(root, -1, order, layered), listener)
