"""The Python that commands find first on PATH: the interpreter that runs stackmem, with pytest and no other package.

A task must not see stackmem's own dependencies. So pytest and its dependencies are copied once into a separate
environment in the user's cache folder. It is a plain virtual environment, so commands may set PYTHONPATH freely.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.installing import install_packages

from .profile import Mount

if TYPE_CHECKING:
    from importlib import metadata

INSIDE = "/opt/stackmem/python"
_LAYOUT = "1"  # increment when the environment's content changes for the same packages
_SCRIPT = """#!/bin/sh
exec "${{0%/*}}/python" -P -c 'import sys; from {module} import {attr}; sys.argv[0] = "{name}"; sys.exit({attr}())' "$@"
"""


class Toolchain(Struct, frozen=True):
    """An interpreter and a small virtual environment for it."""

    prefix: str  # the interpreter's installation, mounted at its own path
    environment: str  # path of the virtual environment on the host

    def python(self) -> str:
        """Return the real path of the interpreter on the host."""
        return os.path.realpath(f"{self.environment}/bin/python")

    def mounts(self) -> tuple[Mount, ...]:
        own = (Mount(self.environment, INSIDE),)
        if Path(self.prefix).is_relative_to("/usr"):
            return own
        return (Mount(self.prefix, self.prefix), *own)


class PythonInstallation(Struct, frozen=True):
    """A Python installation: its prefix, its executable and its version."""

    prefix: Path
    executable: Path
    version: str


def running_interpreter() -> PythonInstallation:
    """Return the installation behind the virtual environment that runs stackmem.

    Raise WorkspaceError if mounting the installation would expose a whole home or root folder to commands.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    prefix = Path(os.path.realpath(sys.base_prefix))
    if prefix == Path("/") or Path.home().resolve().is_relative_to(prefix):
        raise WorkspaceError(
            f"the Python that runs stackmem is installed in {prefix}, which commands must not see; "
            "run stackmem with a Python in a separate folder"
        )
    executable = prefix / "bin" / f"python{version}"
    if not executable.exists():
        raise WorkspaceError(f"no interpreter at {executable}; run stackmem with an ordinary installation of Python")
    return PythonInstallation(prefix=prefix, executable=executable, version=version)


def build_toolchain(cache: Path, interpreter: PythonInstallation | None = None) -> Toolchain:
    """Return the environment in ``cache``, creating it if necessary.

    Raise WorkspaceError if the cache folder cannot be written, or pytest is not installed next to stackmem.
    """
    base = interpreter or running_interpreter()
    path = cache / f"python-of-{_digest(str(base.executable), *_installed())}"
    target = cache / path.readlink().name if path.is_symlink() else path
    if target == path or not target.is_dir():
        packages = _distributions("pytest")
        versions = (f"{name}={package.version}" for name, package in sorted(packages.items()))
        target = cache / f"python-{_digest(str(base.executable), *versions)}"
        try:
            if not target.is_dir():
                _create(target, base, packages)
            _point(path, target.name)
        except OSError as error:
            raise WorkspaceError(
                f"cannot write {target} ({error.strerror}); make it writable or set XDG_CACHE_HOME"
            ) from error
    return Toolchain(prefix=str(base.prefix), environment=str(target))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join((_LAYOUT, *parts)).encode()).hexdigest()[:16]


@cache
def _installed() -> tuple[str, ...]:
    """Return a key that changes whenever an installed package changes, because reading their metadata is slow."""
    folders = (Path(location) for location in sys.path if any(Path(location).glob("*.dist-info")))
    return tuple(f"{folder} {folder.stat().st_mtime_ns}" for folder in folders)


def _point(link: Path, name: str) -> None:
    """Create or replace the link atomically, even if other processes do the same."""
    draft = Path(tempfile.mkdtemp(prefix=f".{link.name}-", dir=link.parent))
    try:
        (draft / "link").symlink_to(name)
        (draft / "link").rename(link)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@cache
def _distributions(name: str) -> dict[str, metadata.Distribution]:
    from importlib import metadata  # slow, and needed only to create the environment

    from packaging.requirements import Requirement  # a dependency of pytest

    distributions: dict[str, metadata.Distribution] = {}
    queue = [name]
    while queue:
        each = queue.pop()
        if each in distributions:
            continue
        try:
            distributions[each] = metadata.distribution(each)
        except metadata.PackageNotFoundError as error:
            raise WorkspaceError(
                f"{each} is not installed together with stackmem; run: {install_packages(each)}"
            ) from error
        for line in distributions[each].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                queue.append(requirement.name.lower())
    return distributions


def _create(target: Path, interpreter: PythonInstallation, packages: dict[str, metadata.Distribution]) -> None:
    """Create the environment in a temporary folder and rename it, so that a crash leaves nothing half done."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        draft.chmod(0o755)
        bin_folder = draft / "bin"
        site = draft / "lib" / f"python{interpreter.version}" / "site-packages"
        bin_folder.mkdir()
        site.mkdir(parents=True)
        for name in ("python", "python3", f"python{interpreter.version}"):
            (bin_folder / name).symlink_to(interpreter.executable)
        for entry in packages["pytest"].entry_points.select(group="console_scripts"):
            script = bin_folder / entry.name
            script.write_text(_SCRIPT.format(module=entry.module, attr=entry.attr, name=entry.name))
            script.chmod(0o755)
        (draft / "pyvenv.cfg").write_text(
            f"home = {interpreter.executable.parent}\ninclude-system-site-packages = false\n"
        )
        for package in packages.values():
            _copy(package, site)
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process created the same content first
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy(package: metadata.Distribution, site: Path) -> None:
    """Copy a package's files with their timestamps, so that compiled files stay valid."""
    compiled: dict[Path, dict[str, list[str]]] = {}  # keyed by folder, then by module name
    for file in package.files or ():
        source, destination = Path(str(package.locate_file(file))), site / file
        if ".." in file.parts or file.suffix in {".pth", ".pyc"} or not source.is_file():
            continue
        if source.parent not in compiled:
            (destination.parent / "__pycache__").mkdir(parents=True, exist_ok=True)
            names = compiled[source.parent] = {}
            for each in (source.parent / "__pycache__").glob("*.pyc"):
                names.setdefault(each.name.partition(".")[0], []).append(f"__pycache__/{each.name}")
        for name in (file.name, *(compiled[source.parent].get(file.stem, ()) if file.suffix == ".py" else ())):
            shutil.copy2(source.parent / name, destination.parent / name)
