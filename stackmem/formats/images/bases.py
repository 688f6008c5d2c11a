"""Base systems: from a folder, an archive of a root, a ``docker save`` archive, or a container engine.

All files are owned by the user afterwards. Devices are left out, because the sandbox creates its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from msgspec import structs

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.text import tail
from stackmem.foreign.archives import (
    SavedFiles,
    budget_for,
    decompressed,
    first_name,
    opened,
    unpack_folder,
    unpack_layer,
)
from stackmem.foreign.tar import ArchiveBudget, is_tar
from stackmem.foreign.tree import ArchiveError, Parts, UnpackedTree
from stackmem.workspace.clip import clean
from stackmem.workspace.image import ImageConfig

from .pins import checked_pins
from .store import ImageStore, SystemRoot, base_name, pin_of, text_digest, tree_digest

_SECONDS = 1800
_JSON_BYTES = 16 << 20
_ENGINES = ("podman", "docker")


def add_base(store: ImageStore, assignment: str) -> SystemRoot:
    """Add the base of ``NAME=PATH`` to the store. Content that is already there is not unpacked again.

    Raise UsageError if the text is malformed, or the path is not a root or does not have the digest in the name. Raise
    WorkspaceError if the base cannot be unpacked.
    """
    raw_name, equals, location = assignment.partition("=")
    path = Path(os.path.expanduser(location)).absolute()
    if not equals or not raw_name.strip() or not location:
        raise UsageError(f"--base {assignment!r}: write NAME=PATH, for example --base debian:bookworm=root.tar")
    name = base_name(raw_name)
    if name == "scratch":
        raise UsageError("scratch is the empty base; give yours another name")
    if path.is_dir():
        digest = text_digest("folder", tree_digest(path))
        root = store.folder_of("bases", f"root-{digest}", lambda folder: _copy_root(path, folder))
        base = SystemRoot(name, digest, str(root))
    elif path.is_file():
        base = _from_archive(store, name, path)
    else:
        raise UsageError(f"no {path}; --base needs a folder, or an archive of a root or from docker save")
    _must_be_root(base)
    pin = pin_of(name)
    if "@" in name and pin not in base.pins:
        digests_note = f"it has {', '.join(base.pins)}" if base.pins else "only docker save archives contain digests"
        raise UsageError(f"{path} does not have the digest {pin} ({digests_note}); use the archive of that image")
    store.keep_base(base)
    return base


def _from_archive(store: ImageStore, name: str, path: Path) -> SystemRoot:
    store.make_ready()
    try:
        with opened(path) as archive, ExitStack() as stack:
            digest = hashlib.file_digest(archive, "sha256").hexdigest()[:32]
            archive.seek(0)
            if not is_tar(archive):
                raise UsageError(f"{path} is not a readable archive; create one with tar or docker save")
            budget = budget_for(archive)
            saved = _saved(path, archive, stack, store.folder, budget)
            layers: list[BinaryIO] = saved[0] if saved else [archive]
            root = store.folder_of("bases", f"root-{digest}", lambda folder: _unpack(layers, folder, budget))
    except (ArchiveError, OSError) as error:
        raise WorkspaceError(f"{path} cannot be unpacked ({error}); create the archive again") from error
    return SystemRoot(name, digest, str(root), *(saved[1:] if saved else ()))


def _must_be_root(base: SystemRoot) -> None:
    if not any(os.path.lexists(Path(base.root, name)) for name in ("bin", "usr")):
        raise UsageError(
            f"the base {base.name} contains neither /bin nor /usr, so it is not a root; name the root folder itself"
        )


@cache
def engine() -> str:
    """Return a working container engine, podman before docker, or an empty string."""
    return next((name for name in _ENGINES if shutil.which(name) and _engine(name, "info") is not None), "")


def build_with_engine(store: ImageStore, recipe: Path, context: Path, args: Mapping[str, str]) -> SystemRoot:
    """Build a Dockerfile with the engine and export the result as a base. The engine needs no base from the store."""
    program = engine()
    words = [word for pair in args.items() for word in ("--build-arg", "=".join(pair))]
    command = [program, "build", "-q", "-f", str(recipe), *words, str(context)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{program} cannot build {recipe} ({error})") from error
    if process.returncode != 0 or not process.stdout.strip():
        output = tail(clean(process.stderr.encode()), 40, 3_000)
        raise UsageError(f"{program} build ended with exit {process.returncode}\n{output}")
    image = process.stdout.strip().splitlines()[-1]
    base = base_of_engine(store, image, f"stackmem-built:{image.rpartition(':')[2][:32]}")
    if base is None:
        raise UsageError(f"{program} built {recipe} but cannot export it; run {program} create {image}")
    return base


def base_of_engine(store: ImageStore, raw_name: str, kept_as: str = "") -> SystemRoot | None:
    """Export a base from the engine, which may download it. Returns None without an engine, or if it fails."""
    program = engine()
    if not program or (created := _engine(program, "create", raw_name, "true")) is None:
        return None
    container = created.strip().splitlines()[-1]
    with tempfile.TemporaryDirectory(prefix="stackmem-base-") as scratch:
        archive = Path(scratch) / "root.tar"
        try:
            described = _engine(program, "inspect", "--format", "{{json .Config}}", container)
            pins = _pins(program, container)
            exported = _engine(program, "export", "-o", str(archive), container)
        finally:
            _engine(program, "rm", "-f", container)
        name = base_name(kept_as or raw_name)
        if exported is None or not archive.is_file() or ("@" in name and pin_of(name) not in pins):
            return None
        unpacked = _from_archive(store, name, archive)
    base = structs.replace(unpacked, config=_config(json.loads(described or "{}")), pins=pins)
    _must_be_root(base)
    store.keep_base(base)
    return base


def _pins(program: str, container: str) -> tuple[str, ...]:
    """Return the digests of a container's image, registry digests first."""
    image = (_engine(program, "inspect", "--format", "{{.Image}}", container) or "").strip()
    digests = _engine(program, "image", "inspect", "--format", "{{json .RepoDigests}}", image) if image else None
    listed = [each.rpartition("@")[2] for each in _texts(json.loads(digests or "[]"))]
    return tuple(dict.fromkeys((*listed, f"sha256:{image.removeprefix('sha256:')}"))) if image else ()


def _engine(program: str, *words: str) -> str | None:
    try:
        process = subprocess.run([program, *words], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def _config(value: Any) -> ImageConfig:
    """Parse an engine's image configuration, in the format that all engines share."""
    settings = value if isinstance(value, dict) else {}
    listed = {name: _texts(settings.get(name)) for name in ("Env", "Shell")}
    env = dict(each.split("=", 1) for each in listed["Env"] if "=" in each)
    workdir, user = str(settings.get("WorkingDir") or "/"), str(settings.get("User") or "")
    return ImageConfig(env, workdir, user, listed["Shell"])


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _saved(
    path: Path, archive: BinaryIO, stack: ExitStack, scratch: Path, budget: ArchiveBudget
) -> tuple[list[BinaryIO], ImageConfig, tuple[str, ...]] | None:
    """Return layers, configuration and digests of a ``docker save`` archive, or None for the archive of a root.

    Raise ArchiveError if the archive is damaged, or contradicts its digests. Raise UsageError if its manifest is not
    that of ``docker save``.
    """
    if not _looks_saved(first_name(archive, structs.replace(budget))):
        return None
    files = SavedFiles(
        stack.enter_context(decompressed(archive, scratch, structs.replace(budget))), structs.replace(budget)
    )
    archive.seek(0)
    if "manifest.json" not in files:
        return None
    try:
        entry = json.loads(files.read("manifest.json", _JSON_BYTES))[0]
        config = files.read(entry["Config"], _JSON_BYTES)
        layers = [str(layer) for layer in entry["Layers"]]
        pins = checked_pins(files, config, layers, budget)
        return [files.section(layer) for layer in layers], _config(json.loads(config).get("config")), pins
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} has a manifest.json that is not from docker save ({error!r})") from error


def _looks_saved(name: str) -> bool:
    plain = PurePosixPath(name)
    return len(plain.parts) >= 1 and (plain.parts[0] == "blobs" or plain.suffix == ".json" or len(plain.parts[0]) == 64)


def _unpack(layers: list[BinaryIO], folder: Path, budget: ArchiveBudget) -> None:
    with UnpackedTree(folder) as tree:
        for layer in layers:
            unpack_layer(layer, tree, budget, leaves=_is_device)


def _is_device(parts: Parts) -> bool:
    return len(parts) > 1 and parts[0] == b"dev"


def _copy_root(source: Path, folder: Path) -> None:
    try:
        with UnpackedTree(folder) as tree:
            unpack_folder(source, tree)
    except (ArchiveError, OSError) as error:
        raise WorkspaceError(f"{source} cannot be copied ({error}); make the folder readable") from error
