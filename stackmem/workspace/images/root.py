"""A root for commands: layers that stay as they are, one on top that takes what is written, and what is bound into it.

No process is left behind, and no mount on the host: the root lives in namespaces that descriptors hold.
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

from stackmem.errors import WorkspaceError
from stackmem.foreign.beneath import open_in_root
from stackmem.workspace.egress.door import PORT
from stackmem.workspace.overlay.mount import MountOrder, OverlayPlaces, mount_root
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount
from stackmem.workspace.tree import remove_tree

from .store import Image, ImageStore, text_digest

INSIDE = "/.stackmem"
"""Where a root shows the shell: a mount right below ``/``, so that no command can put another program in its place."""
_BASH = "/bin/bash"
_PASSWD_BYTES = 1 << 20
UPPER = "upper"
"""The folder, in a root's place, that holds what was written."""


class ImageRoot(Struct):
    """A mounted root; its descriptors alone keep it."""

    image: Image
    view: WorkspaceView
    starts: tuple[str, ...]  # words that start the shell which sets a command's limits
    listener: int = -1  # what listens at the door's port in the root's own network; -1 where it has no door

    @property
    def fds(self) -> tuple[int, ...]:
        """What a program that enters has to inherit."""
        return self.view.fds

    def entered(self, *argv: str) -> tuple[str, ...]:
        """The words that start a program in the root's namespaces."""
        return self.view.entered(*argv)

    def close(self) -> None:
        self.view.close()
        if self.listener >= 0:
            os.close(self.listener)
            self.listener = -1


def open_root(
    store: ImageStore, image: Image, place: Path, network: str, mounts: tuple[Mount, ...] = (),
    below: tuple[Path, ...] = (),  # folders that lie over the image's own layers, as layers of another root
) -> ImageRoot:  # fmt: skip
    """Mount a root whose changes go to ``place``; what an earlier process left there is part of it."""
    folder, starts = limit_shell(store)
    places = OverlayPlaces(place / UPPER, place / "overlay", place / "hidden", place / "root")
    try:
        for each in (places.upper, places.work, places.hide, places.view):
            each.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(f"no root can be made at {place} ({error.strerror}); make room there") from error
    binds = [(str(folder), INSIDE, False)]
    if network == "host" and Path("/etc/resolv.conf").is_file():
        binds.append((os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf", False))
    binds += [(mount.host, mount.inside, mount.writable) for mount in mounts]
    pins = [str(above) for mount in mounts if mount.writable for above in _above(mount.inside)]
    port = None if network == "host" else PORT if network == "list" else 0
    layers = (*below, *map(Path, image.layers))
    view, listener = mount_root(layers, places, MountOrder(tuple(binds), tuple(dict.fromkeys(pins)), port))
    return ImageRoot(image, view, starts, listener)


@contextmanager
def passing_root(store: ImageStore, image: Image, network: str = "none") -> Iterator[tuple[ImageRoot, Path]]:
    """A root for as long as it is needed, and the folder whose ``upper`` takes what is written to it."""
    place = Path(tempfile.mkdtemp(prefix=".making-", dir=store.folder / "layers"))
    try:
        place.chmod(0o755)
        with closing(open_root(store, image, place, network)) as root:
            yield root, place
    finally:
        remove_tree(place)


def _above(path: str) -> list[PurePosixPath]:
    """The folders above a path that are no root themselves, outermost first."""
    return list(reversed(PurePosixPath(path).parents))[1:]


def shell_of(layers: tuple[str, ...]) -> tuple[str, ...]:
    """The shell that commands are given to: bash where a layer has one."""
    names = ("bin/bash", "usr/bin/bash", "usr/local/bin/bash")
    for name in names:
        for layer in layers:
            with suppress(OSError), _opened_in(layer, name, os.O_PATH | os.O_NOFOLLOW):
                return f"/{name}", "-c"
    return "/bin/sh", "-c"


def user_of(layers: tuple[str, ...], named: str) -> tuple[int, str]:
    """The number and the home folder of a user, as the topmost layer that lists users says."""
    name = named.partition(":")[0]
    text = next((found for layer in layers if (found := _passwd(layer)) is not None), "")
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
    """A file of a layer, whose links lead nowhere but into the layer."""
    with ExitStack() as stack:
        root = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, root)
        fd = open_in_root(root, name.encode(), flags)
        stack.callback(os.close, fd)
        yield fd


def limit_shell(store: ImageStore) -> tuple[Path, tuple[str, ...]]:
    """The bash of this machine, for a root that need not have one: the folder to show, and the words that start it."""
    bash = Path(_BASH).resolve()
    try:
        told = subprocess.run(["ldd", str(bash)], capture_output=True, text=True, timeout=20, check=False).stdout
        stamp = bash.stat()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkspaceError(f"the limits of commands in images need bash and ldd ({error})") from error
    libraries = re.findall(r"=> (/\S+) \(", told)
    loader = next(iter(re.findall(r"^\s*(/\S*ld\S*) \(", told, re.MULTILINE)), "")

    def fill(folder: Path) -> None:
        for source in (*libraries, *([loader] if loader else ())):
            shutil.copy(source, folder / Path(source).name)
        shutil.copy(bash, folder / "bash")

    key = text_digest("shell", str(bash), str(stamp.st_mtime_ns), *libraries, loader)
    folder = store.made("shells", key, fill)
    if not loader:
        return folder, (f"{INSIDE}/bash",)
    return folder, (f"{INSIDE}/{Path(loader).name}", "--library-path", INSIDE, f"{INSIDE}/bash")
