"""A root file system for commands: read-only layers, a writable layer on top, and bind mounts.

It leaves no process and no mount on the host: the root exists in namespaces that descriptors keep alive.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.beneath import open_in_root
from stackmem.workspace.egress.door import PORT
from stackmem.workspace.image import Image
from stackmem.workspace.overlay.mount import MountOrder, OverlayPlaces, mount_root
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount
from stackmem.workspace.tree import remove_tree

from .store import ImageStore, text_digest

INSIDE = "/.stackmem"
"""Mount point of the shell in a root. It is directly below ``/``, so that no command can replace the shell."""
_BASH = "/bin/bash"
_PASSWD_BYTES = 1 << 20
UPPER = "upper"
"""Folder in a root's place that contains what was written."""


class ImageRoot(Struct):
    """A mounted root, kept alive by its descriptors only."""

    image: Image
    view: WorkspaceView
    starts: tuple[str, ...]  # arguments that start the shell that sets a command's limits
    listener: int = -1  # socket that listens at the door's port in the root's network; -1 without a door

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that a program must inherit to enter."""
        return self.view.fds

    def entered(self, *argv: str) -> tuple[str, ...]:
        """Return the argv that starts a program in the root's namespaces."""
        return self.view.entered(*argv)

    def close(self) -> None:
        self.view.close()
        if self.listener >= 0:
            os.close(self.listener)
            self.listener = -1


def open_root(
    store: ImageStore, image: Image, path: Path, network: str, mounts: tuple[Mount, ...] = (),
    lower: tuple[Path, ...] = (),  # folders above the image's layers, used as layers of another root
) -> ImageRoot:  # fmt: skip
    """Mount a root whose changes go to ``path``. Earlier changes there are included.

    Raise WorkspaceError if the root cannot be mounted; run ``stackmem doctor``.

    Args:
        network: As in a profile. ``none`` and ``list`` create a separate network.
        mounts: Bind mounts. The parent folders of a writable mount cannot be moved.
    """
    folder, starts = limit_shell(store)
    places = OverlayPlaces(path / UPPER, path / "overlay", path / "hidden", path / "root")
    try:
        for each in (places.upper, places.work, places.hide, places.view):
            each.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(f"no root can be created at {path} ({error.strerror}); free disk space there") from error
    binds = [(str(folder), INSIDE, False)]
    if network == "host" and Path("/etc/resolv.conf").is_file():
        binds.append((os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf", False))
    binds += [(mount.host, mount.inside, mount.writable) for mount in mounts]
    pins = [str(parent) for mount in mounts if mount.writable for parent in _parents(mount.inside)]
    port = None if network == "host" else PORT if network == "list" else 0
    layers = (*lower, *map(Path, image.layers))
    view, listener = mount_root(layers, places, MountOrder(tuple(binds), tuple(dict.fromkeys(pins)), port))
    return ImageRoot(image, view, starts, listener)


@contextmanager
def passing_root(store: ImageStore, image: Image, network: str = "none") -> Iterator[tuple[ImageRoot, Path]]:
    """Open a temporary root. Yields it with the folder whose ``upper`` receives its changes."""
    path = Path(tempfile.mkdtemp(prefix=".making-", dir=store.folder / "layers"))
    try:
        path.chmod(0o755)
        with closing(open_root(store, image, path, network)) as root:
            yield root, path
    finally:
        remove_tree(path)


def _parents(path: str) -> list[PurePosixPath]:
    """Return the parents of a path except the root, outermost first."""
    return list(reversed(PurePosixPath(path).parents))[1:]


def shell_of(layers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the shell that runs commands: bash if a layer has it."""
    names = ("bin/bash", "usr/bin/bash", "usr/local/bin/bash")
    for name in names:
        for layer in layers:
            with suppress(OSError), _opened_in(layer, name, os.O_PATH | os.O_NOFOLLOW):
                return f"/{name}", "-c"
    return "/bin/sh", "-c"


def user_of(layers: tuple[str, ...], user: str) -> tuple[int, str]:
    """Return the uid and home folder of a user, according to the topmost layer with a list of users.

    Raise WorkspaceError if no layer lists the name.
    """
    name = user.partition(":")[0]
    text = next((content for layer in layers if (content := _passwd(layer)) is not None), "")
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) >= 6 and name in (parts[0], parts[2]) and parts[2].isdecimal():
            return int(parts[2]), parts[5] or "/"
    if name.isdecimal():
        return int(name), "/"
    if name in ("", "root"):
        return 0, "/root"
    raise WorkspaceError(f"USER {name} is not in the image's /etc/passwd")


def _passwd(layer: str) -> str | None:
    with suppress(OSError), _opened_in(layer, "etc/passwd", os.O_RDONLY | os.O_NONBLOCK) as fd:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return os.pread(fd, _PASSWD_BYTES, 0).decode("utf-8", "replace")
    return None


@contextmanager
def _opened_in(layer: str, name: str, flags: int) -> Iterator[int]:
    """Open a file of a layer. Links cannot lead outside the layer."""
    with ExitStack() as stack:
        root = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, root)
        fd = open_in_root(root, name.encode(), flags)
        stack.callback(os.close, fd)
        yield fd


def limit_shell(store: ImageStore) -> tuple[Path, tuple[str, ...]]:
    """Copy this machine's bash for a root that may lack it. Returns the folder to mount and the arguments to start
    bash.

    Raise WorkspaceError if this machine has no bash, or its libraries cannot be determined.
    """
    bash = Path(_BASH).resolve()
    try:
        output = subprocess.run(["ldd", str(bash)], capture_output=True, text=True, timeout=20, check=False).stdout
        stamp = bash.stat()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkspaceError(f"the limits of commands in images need bash and ldd ({error})") from error
    libraries = re.findall(r"=> (/\S+) \(", output)
    loader = next(iter(re.findall(r"^\s*(/\S*ld\S*) \(", output, re.MULTILINE)), "")

    def fill(folder: Path) -> None:
        for source in (*libraries, *([loader] if loader else ())):
            shutil.copy(source, folder / Path(source).name)
        shutil.copy(bash, folder / "bash")

    key = text_digest("shell", str(bash), str(stamp.st_mtime_ns), *libraries, loader)
    folder = store.folder_of("shells", key, fill)
    if not loader:
        return folder, (f"{INSIDE}/bash",)
    return folder, (f"{INSIDE}/{Path(loader).name}", "--library-path", INSIDE, f"{INSIDE}/bash")
