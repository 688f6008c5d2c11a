"""A network namespace for the agent of ``gateway run``, from which it can reach only the gateway.

The gateway's socket listens inside, but the gateway accepts its connections outside. A socket file would be another way
out, for example that of a container engine, so the existing ones are hidden from the agent.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.overlay.mount import make_private_network
from stackmem.workspace.overlay.view import WorkspaceView

_PORT = 8123
_RUNTIME_FOLDERS = ("/run", "/var/run")
_MAX_SOCKETS = 20_000
_MAX_DEPTH = 4
_ADDRESS = re.compile(r"(?:unix:(?:path=|//)?)?(/[^,;]+)")
_START = 'cd "$1" && shift && exec "$@"'
"""Entering a mount namespace changes the working directory."""


class AgentNetwork(Struct, frozen=True):
    """Namespaces for an agent, with the gateway's socket inside."""

    view: WorkspaceView
    listener: socket.socket

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that the agent's process inherits."""
        return self.view.fds

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts the agent inside, in the current folder."""
        return list(self.view.entered("/bin/sh", "-c", _START, "sh", str(Path.cwd()), *command))


@contextmanager
def agent_network(environ: Mapping[str, str]) -> Iterator[AgentNetwork]:
    """Create the namespaces, and remove them at the end of the block and of the agent.

    Raise WorkspaceError if the kernel does not support or allow them.
    """
    try:
        view, listener = make_private_network(_PORT, sorted(socket_files(environ)))
    except OSError as error:
        raise WorkspaceError(
            f"--isolate-network needs user and network namespaces, which cannot be created here ({error}); "
            "see stackmem doctor, or start the agent in a container without a network"
        ) from error
    try:
        with socket.socket(fileno=listener) as listening:
            yield AgentNetwork(view, listening)
    finally:
        view.close()


def socket_files(environ: Mapping[str, str]) -> set[str]:
    """Return the socket files that other programs listen on, as far as they can be found.

    The kernel lists those of this network namespace. Those of a container's host are in the usual folders or named by
    variables.
    """
    addresses = (match[1] for value in environ.values() if (match := _ADDRESS.match(value)))
    folders = {*_RUNTIME_FOLDERS, environ.get("XDG_RUNTIME_DIR", "")} - {""}
    sockets: set[str] = set()
    for path in (*_listed(), *addresses, *(path for folder in folders for path in _files_in(folder, _MAX_DEPTH))):
        # Each one becomes a mount, and the kernel limits the mounts of a namespace (100,000 by default).
        if len(sockets) < _MAX_SOCKETS and _is_socket(path):
            # A mount hides a file, not its other names: links would lead around it.
            sockets.add(os.path.realpath(path))
    return sockets


def _listed() -> Iterator[str]:
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        words = line.split(None, 7)
        # Abstract sockets begin with @; they end with the network namespace.
        if len(words) == 8 and words[7].startswith("/"):
            yield words[7]


def _files_in(folder: str, depth: int) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        # A link could lead to any tree of the machine, or back to this folder.
        if entry.is_dir(follow_symlinks=False):
            yield from _files_in(entry.path, depth - 1) if depth else ()
        else:
            yield entry.path


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False
