"""Base systems: from a folder, an archive of a root, an archive of ``docker save``, or an engine that has the image.

Whatever it is, its files come to belong to the person, and devices are left out: a sandbox makes its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import structs

from stackmem.errors import UsageError, WorkspaceError
from stackmem.workspace.tree import remove_tree

from .store import ImageConfig, ImageStore, SystemRoot, base_name, text_digest, tree_digest

_SECONDS = 1800
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_ENGINES = ("podman", "docker")


def add_base(store: ImageStore, given: str) -> SystemRoot:
    """Take the base of ``NAME=PATH`` into the store; what is there under its content is not unpacked again.

    Raises:
        UsageError: It has no such form, or the path holds no root.
        WorkspaceError: It cannot be unpacked.
    """
    named, equals, place = given.partition("=")
    path = Path(os.path.expanduser(place)).absolute()
    if not equals or not named.strip() or not place:
        raise UsageError(f"--base {given!r}: write NAME=PATH, as in --base debian:bookworm=root.tar")
    name = base_name(named)
    if name == "scratch":
        raise UsageError("scratch is the empty base; give yours another name")
    if path.is_dir():
        digest = text_digest("folder", tree_digest(path))
        root = store.made("bases", f"root-{digest}", lambda folder: _copy_root(path, folder))
        base = SystemRoot(name, digest, str(root))
    elif path.is_file():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:32]
        saved = _saved(path)
        root = store.made("bases", f"root-{digest}", lambda folder: _unpack(path, saved, folder))
        base = SystemRoot(name, digest, str(root), saved[1] if saved else ImageConfig())
    else:
        raise UsageError(f"no {path}; --base takes a folder, or an archive of a root or of docker save")
    _must_be_root(base)
    store.keep_base(base)
    return base


def _must_be_root(base: SystemRoot) -> None:
    if not any((Path(base.root) / name).is_dir() or (Path(base.root) / name).is_symlink() for name in ("bin", "usr")):
        raise UsageError(f"the base {base.name} holds neither /bin nor /usr, so it is no root; name the folder itself")


@cache
def engine() -> str:
    """The engine that works here, podman before docker; empty where none does."""
    return next((name for name in _ENGINES if shutil.which(name) and _engine(name, "info") is not None), "")


def base_of_engine(store: ImageStore, named: str) -> SystemRoot | None:
    """The base as the engine has it, which may fetch it; None where there is no engine, or it cannot."""
    program = engine()
    if not program or (made := _engine(program, "create", named, "true")) is None:
        return None
    container = made.strip().splitlines()[-1]
    with tempfile.TemporaryDirectory(prefix="stackmem-base-") as scratch:
        archive = Path(scratch) / "root.tar"
        try:
            told = _engine(program, "inspect", "--format", "{{json .Config}}", container)
            exported = _engine(program, "export", "-o", str(archive), container)
        finally:
            _engine(program, "rm", "-f", container)
        if exported is None or not archive.is_file():
            return None
        base = structs.replace(add_base(store, f"{named}={archive}"), config=_config(json.loads(told or "{}")))
    store.keep_base(base)
    return base


def _engine(program: str, *words: str) -> str | None:
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _config(told: Any) -> ImageConfig:
    """What an engine says of an image, in the form that all of them share."""
    said = told if isinstance(told, dict) else {}
    listed = {name: _texts(said.get(name)) for name in ("Env", "Entrypoint", "Cmd", "Shell")}
    env = dict(each.split("=", 1) for each in listed["Env"] if "=" in each)
    workdir, user = str(said.get("WorkingDir") or "/"), str(said.get("User") or "")
    return ImageConfig(env, workdir, user, listed["Shell"], (*listed["Entrypoint"], *listed["Cmd"]))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _saved(path: Path) -> tuple[list[str], ImageConfig] | None:
    """The layers and the configuration of an archive of ``docker save``; None where it is one of a root.

    Raises:
        UsageError: It is no archive.
    """
    try:
        with tarfile.open(path) as archive:
            first = archive.next()
            names = archive.getnames() if first is not None and _looks_saved(first.name) else []
            if "manifest.json" not in names:
                return None
            entry = json.loads(_member(archive, "manifest.json"))[0]
            told = json.loads(_member(archive, entry["Config"]))
            return [str(layer) for layer in entry["Layers"]], _config(told.get("config"))
    except tarfile.ReadError as error:
        raise UsageError(f"{path} is no archive that can be read ({error}); make one by tar or docker save") from error
    except (KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise UsageError(f"{path} has a manifest.json that is not docker save's ({error!r})") from error


def _looks_saved(name: str) -> bool:
    plain = PurePosixPath(name)
    return len(plain.parts) >= 1 and (plain.parts[0] == "blobs" or plain.suffix == ".json" or len(plain.parts[0]) == 64)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read(16 << 20)


def _unpack(path: Path, saved: tuple[list[str], ImageConfig] | None, folder: Path) -> None:
    if saved is None:
        _extract(path, folder)
        return
    with tempfile.TemporaryDirectory(prefix="layers-", dir=folder.parent) as scratch, tarfile.open(path) as archive:
        for number, name in enumerate(saved[0]):
            layer = Path(scratch) / f"{number}.tar"
            file = archive.extractfile(name)
            if file is None:
                raise UsageError(f"{path} has no layer {name}; it is not whole")
            with layer.open("wb") as out:
                shutil.copyfileobj(file, out, 1 << 20)
            _remove_whited_out(layer, folder)
            _extract(layer, folder)
            layer.unlink()


def _remove_whited_out(layer: Path, folder: Path) -> None:
    """Take away what a layer says is gone; names are looked up without following a link."""
    with tarfile.open(layer) as archive:
        for member in archive:
            place = PurePosixPath("/", member.name)
            if not place.name.startswith(_WHITEOUT) or ".." in place.parts:
                continue
            parent = folder.joinpath(*place.parent.parts[1:])
            if any(each.is_symlink() for each in (parent, *parent.parents) if each.is_relative_to(folder)):
                continue
            if place.name == _OPAQUE:
                for entry in parent.iterdir() if parent.is_dir() else ():
                    remove_tree(entry)
            else:
                remove_tree(parent / place.name.removeprefix(_WHITEOUT))


def _extract(archive: Path, folder: Path) -> None:
    """By tar, which makes no file through a link of the archive's own."""
    words = (
        "tar", "--extract", "--file", str(archive), "--directory", str(folder), "--no-same-owner",
        "--delay-directory-restore", "--exclude=dev/*", "--exclude=./dev/*", "--exclude=.wh.*", "--warning=none",
    )  # fmt: skip
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkspaceError(f"{archive} cannot be unpacked ({error}); install tar") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise WorkspaceError(f"{archive} cannot be unpacked ({'; '.join(said[-3:])[-300:] or 'tar failed'})")
    _open_to_owner(folder)


def _copy_root(source: Path, folder: Path) -> None:
    def odd(place: str, names: list[str]) -> list[str]:
        modes = ((name, os.lstat(Path(place, name)).st_mode) for name in names)
        return [name for name, mode in modes if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]

    try:
        shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True, ignore=odd)
    except shutil.Error as error:
        raise WorkspaceError(f"{source} cannot be copied: {str(error.args[0][0])[:300]}") from error
    _open_to_owner(folder)


def _open_to_owner(folder: Path) -> None:
    """Whoever owns a file in a root may read and change it there, as root does whose rights stand above modes."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            mode = path.lstat().st_mode
            wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
            if not stat.S_ISLNK(mode) and mode & wanted != wanted:
                path.chmod(stat.S_IMODE(mode) | wanted)
