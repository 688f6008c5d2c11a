"""Interpreters outside a folder that its environments refer to, and what commands may see of them.

Rule 1: A folder's content is untrusted. A path it refers to is granted only if its files show that it is a Python
    installation. It must not be a home folder, a parent of one, or contain more than programs.
Rule 2: Commands find each installation at the path that the environment names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from stackmem.foreign.files import read_start

_GRANT = "grant it with a mount in a profile (--profile FILE)"
_SHOWN_ALWAYS = ("/usr", "/bin", "/lib", "/lib64")
_MAX_HOPS = 16
_MAX_NAMED = 10
_MAX_FILES = 100
_MAX_BYTES = 256 * 1024
_OF_A_SYSTEM = ("home", "root", "proc", "usr", ".ssh", ".git")
"""Names found in a system root, a home folder or a project, but not in an installation."""
_CHECKOUT = re.compile(r'"url":\s*"file://(/[^"]*)"')
_KERNELS = ("/proc", "/dev", "/sys")
_NEVER = ("", ".local", ".local/share", ".cache", ".config", ".pyenv", ".nvm", ".volta", ".ssh")


class Interpreter(Struct, frozen=True):
    """The interpreter of an environment."""

    environment: str  # the environment, relative to the folder
    works: bool  # whether it can run once the installations are visible
    version: str = ""  # from ``pyvenv.cfg``, reduced to digits and dots; empty if unknown
    installations: tuple[str, ...] = ()  # folders outside the project that commands must see
    missing: tuple[str, ...] = ()  # messages about what prevents it from running, or which parts are not visible


def read_small(path: Path) -> str:
    """Return the text of a regular file, or an empty string if it is missing or unreadable. Never blocks on a FIFO."""
    with suppress(OSError):
        return read_start(path, _MAX_BYTES).decode("utf-8", "replace")
    return ""


def is_file(path: Path) -> bool:
    """Return whether it is a file that we can access. A link to something inaccessible does not count."""
    with suppress(OSError):
        return path.is_file()
    return False


def find_interpreter(folder: Path, names: Iterable[str], granted: tuple[str, ...]) -> Interpreter | None:
    """Return the interpreter of the first of these environments that exists.

    Args:
        folder: The project, an absolute path without links.
        names: Paths of environments below it.
        granted: Host folders that the user lets commands see.
    """
    for name in names:
        path = folder / name
        if settings := read_small(path / "pyvenv.cfg"):
            if Path(os.path.realpath(path)).is_relative_to(folder):
                return _examined(folder, name, settings, (*_SHOWN_ALWAYS, *granted))
            return Interpreter(name, works=False, missing=(f"{name} leads out of the folder; {_GRANT}",))
    return None


def _examined(folder: Path, name: str, settings: str, visible: tuple[str, ...]) -> Interpreter:
    real, hops = _hops(folder / name / "bin" / "python")
    if real is None:
        lost = f"{name}/bin/python leads to {hops[-1]}, which is not a program; create the environment again"
        return Interpreter(name, works=False, missing=(lost,))
    installations: list[str] = []
    closed: list[str] = []
    for prefix, hop in {hop.parent.parent: hop for hop in hops}.items():
        if not _is_in(hop, (str(folder), *visible)):
            if reason := _refusal(prefix, folder):
                closed.append(
                    f"{name}/bin/python leads through {hop}, and {prefix} {reason}; create the environment again with "
                    f"{real} itself, or grant what it needs with a mount in a profile (--profile FILE)"
                )
            else:
                installations.append(str(prefix))
    outside = [
        f"{name} imports from {path}, which is outside the folder; {_GRANT}"
        for path in _imports(folder / name)
        if not _is_in(path, (str(folder), *visible))
    ]
    return Interpreter(name, not closed, _version(settings), tuple(installations), (*closed, *outside[:_MAX_NAMED]))


def _hops(start: Path) -> tuple[Path | None, list[Path]]:
    """Return the program that a link leads to, or None if it is not executable, and every path on the way."""
    hops, at = [], start
    for _ in range(_MAX_HOPS):
        hops.append(at)
        try:
            target = at.readlink()
        except OSError:
            break
        at = Path(os.path.normpath(at.parent / target))
    real = Path(os.path.realpath(start))
    hops.append(real)
    return (real if is_file(real) and os.access(real, os.X_OK) else None), hops


def _is_in(path: Path, places: Iterable[str]) -> bool:
    return any(path.is_relative_to(location) for location in places)


def _holds_more(prefix: Path, folder: Path) -> bool:
    """Return whether a prefix contains more than programs, or may differ between processes or over time."""
    home, real = Path(os.path.realpath(Path.home())), Path(os.path.realpath(prefix))
    return (
        any(real == home / name for name in _NEVER)
        or any(_is_same(real, path) for path in (home, *home.parents, folder, *folder.parents))
        or any(os.path.lexists(real / name) for name in _OF_A_SYSTEM)
        or real.is_relative_to(folder)
        or _is_in(prefix, _KERNELS)
        or _is_in(real, _KERNELS)
    )


def _is_same(path: Path, other: Path) -> bool:
    """Return whether both paths are the same folder, even if it is mounted twice."""
    with suppress(OSError):
        return path.samefile(other)
    return False


def _refusal(prefix: Path, folder: Path) -> str:
    """Return why commands must not see this folder, or an empty string if it is a Python installation."""
    real = Path(os.path.realpath(prefix))
    if _holds_more(prefix, folder):
        return "contains more than programs"
    if not any(real.glob("lib/python3*/os.py")):
        return "is not a Python installation"
    return ""


def _version(settings: str) -> str:
    for line in settings.splitlines():
        key, _, value = line.partition("=")
        if key.strip() in ("version", "version_info"):
            digits = value.strip().split(".")[:3]
            return ".".join(part for part in digits if part.isascii() and part.isdigit())[:20]
    return ""


def _imports(environment: Path) -> list[Path]:
    """Return the absolute paths that the environment adds to its import path, as editable installs do."""
    files = sorted(environment.glob("lib/python3*/site-packages/*.pth"))[:_MAX_FILES]
    paths = [Path(line.strip()) for file in files for line in read_small(file).splitlines()]
    return list(dict.fromkeys(path for path in paths if path.is_absolute()))


def _editable(environment: Path) -> list[Path]:
    """Return the packages of editable installs. Of a checkout, only folders named like the distribution count.

    Source: PEP 610.
    """
    packages = []
    for link in sorted(environment.glob("lib/python3*/site-packages/*.dist-info/direct_url.json"))[:_MAX_FILES]:
        match = _CHECKOUT.search(read_small(link))
        name = link.parent.name.partition("-")[0]
        if match is not None:
            packages += [Path(unquote(match[1])) / name, Path(unquote(match[1])) / "src" / name]
    return [package for package in packages if is_file(package / "__init__.py")]


def find_node(folder: Path, search: str, granted: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the Node installation on the user's PATH, and messages about what is missing.

    ``search`` is the user's PATH. ``granted`` are host folders that the user lets commands see.
    """
    if not is_file(folder / "package.json"):
        return (), ()
    for location in search.split(":"):
        program = Path(location) / "node"
        if not location.startswith("/") or not is_file(program):
            continue
        real = Path(os.path.realpath(program))
        prefix = real.parent.parent
        if _is_in(real, (*_SHOWN_ALWAYS, *granted)):
            return (), ()
        if real.name == "node" and real.parent.name == "bin" and (prefix / "lib" / "node_modules").is_dir():
            if _holds_more(prefix, folder):
                return (), (f"node is {program}, and {prefix} contains more than programs; {_GRANT}",)
            return (str(prefix),), ()
        return (), (f"node is {program}, which is not a separate installation; {_GRANT}",)
    return (), (f"no node on your PATH; install it, or {_GRANT}",)


def runnable(path: Path) -> Path:
    """Return the path to run a program from: the target of a link, unless the link belongs to a Python environment."""
    hops = _hops(path)[1]
    if _is_in(path, _SHOWN_ALWAYS):
        return path
    return next((hop for hop in hops if is_file(hop.parent.parent / "pyvenv.cfg")), hops[-1])


def find_program(program: Path) -> tuple[str, ...]:
    """Return what commands must see to run a user's program: the file itself, or the environment it belongs to.

    Omits what commands see anyway, and folders that contain more than programs.
    """
    prefix = program.parent.parent
    modules = [folder for folder in program.parents if folder.name == "node_modules"]
    if is_file(prefix / "pyvenv.cfg"):
        pythons = [python.parent.parent for python in _hops(prefix / "bin" / "python")[1][1:]]
        paths = [prefix, *pythons, *_editable(prefix)]
    elif modules:
        of_node = modules[-1].parent.parent
        paths = [of_node if is_file(of_node / "bin" / "node") else modules[-1]]
    else:
        paths = [program]
    others = (path for path in paths if not _is_in(path, _SHOWN_ALWAYS))
    return tuple(
        dict.fromkeys(str(path) for path in others if is_file(path) or not _holds_more(path, Path("/nowhere")))
    )
