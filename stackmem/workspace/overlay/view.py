"""Where the files of a workspace are visible: in a host folder, or in a mount within separate namespaces."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.clip import shown_name

_PROGRAMS = "/usr/bin:/bin:/usr/sbin:/sbin"
_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkspaceView(Struct):
    """The files of a workspace.

    Only the descriptors keep the mount alive, so it disappears if the process is killed.
    """

    root: Path  # their path for a program started by ``entered``
    fd: int  # the folder, opened with O_PATH; works from any namespace
    # kind and descriptor of namespaces to enter; none for a host folder
    namespaces: tuple[tuple[str, int], ...] = ()
    layered: bool = True  # whether it is an overlay, which cannot rename folders of the lower layer

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that a program must inherit to enter."""
        return tuple(fd for _, fd in self.namespaces)

    def entered(self, *argv: str) -> tuple[str, ...]:
        """Return the argv that starts a program where it sees the files. If it enters namespaces, its working directory
        is ``/``.
        """
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
    """Return a view of a host folder.

    Raise WorkspaceError if ``root`` is not a directory, or a symlink to a directory.
    """
    try:
        return WorkspaceView(root, os.open(root, _FOLDER))
    except OSError as error:
        raise WorkspaceError(
            f"the workspace {shown_name(os.fspath(root))} is not a directory that can be opened"
            f" ({error.strerror}); start the run with another one"
        ) from error


def nsenter() -> str:
    path = shutil.which("nsenter", path=_PROGRAMS)
    if path is None:
        raise WorkspaceError("nsenter is missing; install util-linux")
    return path
