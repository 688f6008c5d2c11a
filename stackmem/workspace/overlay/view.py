"""Where the files of a workspace are seen: in a folder of the host, or in a mount that only its own namespaces have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct

from stackmem.errors import WorkspaceError
from stackmem.workspace.clip import shown_name

_PROGRAMS = "/usr/bin:/bin:/usr/sbin:/sbin"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkspaceView(Struct):
    """The files of a workspace. The descriptors alone keep the mount: nothing is left of it where we are killed."""

    root: Path  # where a program that is started by ``entered`` finds them
    fd: int  # their folder, open as O_PATH, which works from any namespace
    # kind and descriptor of those that a program has to enter; none for a folder of the host
    namespaces: tuple[tuple[str, int], ...] = ()
    layered: bool = True  # it lies over a folder, of which it may not rename what it did not make

    @property
    def fds(self) -> tuple[int, ...]:
        """What a program that enters has to inherit."""
        return tuple(fd for _, fd in self.namespaces)

    def entered(self, *argv: str) -> tuple[str, ...]:
        """The words that start a program where it sees the files; its folder is ``/`` where it has to enter."""
        if not self.namespaces:
            return argv
        places = (f"--{kind}=/proc/self/fd/{fd}" for kind, fd in self.namespaces)
        return (nsenter(), "--preserve-credentials", *places, "--", *argv)

    def close(self) -> None:
        for fd in (self.fd, *self.fds):
            if fd >= 0:
                os.close(fd)
        self.fd, self.namespaces = -1, ()


def folder_view(root: Path) -> WorkspaceView:
    """A folder of the host as it stands."""
    try:
        return WorkspaceView(root, os.open(root, _FOLDER))
    except OSError as error:
        raise WorkspaceError(
            f"the workspace {shown_name(os.fspath(root))} is not a directory that can be opened"
            f" ({error.strerror}); start the run with another one"
        ) from error


def nsenter() -> str:
    found = shutil.which("nsenter", path=_PROGRAMS)
    if found is None:
        raise WorkspaceError("nsenter is missing; install util-linux")
    return found
