"""The image store: base systems by name, layers by their inputs, images by their sources.

Rule 1: Existing folders are complete: they are filled under a temporary name and renamed.
Rule 2: All files belong to the user: a sandbox has one user, so owners in an archive are ignored.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.files import digest_of_regular, read_regular
from stackmem.workspace.image import Image, ImageConfig
from stackmem.workspace.isolation.levels import state_folder
from stackmem.workspace.tree import remove_tree

_Stored = TypeVar("_Stored", bound=Struct)
SKELETON = ("dev", "proc", "sys", "run", "tmp", "var/tmp", "etc", "root")
"""Folders that every root has, whatever its base contains."""
MAX_CONTEXT_FILE_BYTES = 16 << 30
"""Maximum size of a file that a build copies."""


class SystemRoot(Struct, frozen=True):
    """A root that images are built on."""

    name: str
    digest: str  # digest of its source
    root: str  # the folder in the store
    config: ImageConfig = ImageConfig()
    # registry digests, as in ``FROM NAME@sha256:...``; empty if unknown
    pins: tuple[str, ...] = ()


def base_name(raw_name: str) -> str:
    """Normalize a base's name: without the default registry's host, with a tag, and with a digest if pinned."""
    name, at, pin = raw_name.strip().partition("@")
    *parents, last = name.split("/")
    if parents[-1:] == ["library"] and len(parents) <= 2:
        name = last
    tagged = name if name == "scratch" or ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"
    return tagged + at + pin


def pin_of(name: str) -> str:
    """Return the digest in a name, or an empty string if it is not pinned."""
    return name.partition("@")[2]


class ImageStore:
    """A folder in the user's state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_ready(self) -> None:
        """Create the folder. Only the user may enter it, because files in images can have any mode.

        Raise WorkspaceError if the store cannot be created.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
        except OSError as error:
            raise WorkspaceError(f"{self.folder} cannot be written ({error.strerror}); set XDG_STATE_HOME") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the build lock, so that only one process builds."""
        self.make_ready()
        try:
            fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorkspaceError(f"{self.folder} cannot be written ({error.strerror}); set XDG_STATE_HOME") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            for path in self.folder.glob("*/.making-*"):
                remove_tree(path)  # left over from a killed build
            yield
        finally:
            os.close(fd)

    def folder_of(self, kind: str, key: str, fill: Callable[[Path], object]) -> Path:
        """Return the folder of a kind and key, filling it with ``fill`` if it does not exist."""
        target = self.folder / kind / key
        if target.is_dir():
            return target
        self.make_ready()
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
        try:
            draft.chmod(0o755)
            fill(draft)
            draft.rename(target)
        except OSError as error:
            raise WorkspaceError(f"{target} cannot be created ({error}); free disk space there") from error
        finally:
            if draft.exists():
                remove_tree(draft)
        return target

    def skeleton(self) -> Path:
        """Return the lowest layer of every root."""

        def fill(folder: Path) -> None:
            for name in SKELETON:
                (folder / name).mkdir(parents=True)
            for name in ("tmp", "var/tmp"):
                (folder / name).chmod(0o1777)
            (folder / "root").chmod(0o700)

        return self.folder_of("layers", "skeleton-1", fill)

    def base(self, raw_name: str) -> SystemRoot | None:
        """Return a base by name, or None if there is none or its digest differs from the one in the name."""
        name = base_name(raw_name)
        if name == "scratch":
            return SystemRoot(name, "scratch", str(self.skeleton()))
        plain, at, pin = name.partition("@")
        for stored_name in dict.fromkeys((name, plain)):
            system = self._read(self._base_file(stored_name), SystemRoot)
            if system is not None and Path(system.root).is_dir() and (not at or pin in system.pins):
                return system
        return None

    def bases(self) -> list[SystemRoot]:
        """Return all bases, sorted by name."""
        files = sorted((self.folder / "bases").glob("*.json"))
        return [system for file in files if (system := self._read(file, SystemRoot)) is not None]

    def keep_base(self, base: SystemRoot) -> None:
        self._write(self._base_file(base.name), base)

    def image(self, digest: str) -> Image | None:
        image = self._read(self._image_file(digest), Image)
        return image if image is not None and all(map(os.path.isdir, (*image.layers, image.files))) else None

    def keep_image(self, image: Image) -> None:
        self._write(self._image_file(image.digest), image)

    def _image_file(self, digest: str) -> Path:
        return self.folder / "images" / f"{digest}.json"

    def _base_file(self, name: str) -> Path:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:80]
        return self.folder / "bases" / f"{plain}-{text_digest(name)[:8]}.json"

    def _read(self, path: Path, kind: type[_Stored]) -> _Stored | None:
        try:
            return msgspec.json.decode(read_regular(path), type=kind)
        except (OSError, msgspec.DecodeError):
            return None

    def _write(self, path: Path, value: Struct) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".making-{os.getpid()}-{path.name}")
        draft.write_bytes(msgspec.json.encode(value))
        draft.replace(path)


def image_store() -> ImageStore:
    return ImageStore(state_folder() / "images")


def text_digest(*words: str) -> str:
    """Return a digest of a list of words. Different lists never share an encoding."""
    hasher = hashlib.sha256()
    for word in words:
        raw = word.encode("utf-8", "surrogateescape")
        hasher.update(len(raw).to_bytes(8, "big") + raw)
    return hasher.hexdigest()[:32]


def tree_digest(*places: Path) -> str:
    """Return a digest of names, kinds, modes and contents at and below paths, which must not contain devices."""
    hasher = hashlib.sha256()
    for root in places:
        folder = is_folder(root)
        for path in sorted(root.rglob("*")) if folder else (root,):
            status = path.lstat()
            name = os.fsencode(path.relative_to(root if folder else root.parent))
            hasher.update(b"%d %o %s\0" % (len(name), status.st_mode, name))
            if path.is_symlink():
                hasher.update(os.fsencode(path.readlink()) + b"\0")
            elif path.is_file():
                hasher.update(bytes.fromhex(digest_of_regular(path, MAX_CONTEXT_FILE_BYTES)))
    return hasher.hexdigest()[:32]


def is_folder(path: Path) -> bool:
    """Return whether it is a folder, or a descriptor of one under ``/proc``, which looks like a link."""
    return path.is_dir() and (not path.is_symlink() or path.parent == Path("/proc/self/fd"))
