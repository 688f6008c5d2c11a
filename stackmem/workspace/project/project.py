"""Detects a project's environment (virtualenv, node_modules, toolchains) once, before the run starts."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from stackmem.workspace.environment import SYSTEM_PATH
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.python import Toolchain

from .installations import Interpreter, find_interpreter, find_node, is_file
from .suites import SuiteCommand, find_suites, lock_files, missing_program, uninstalled

_ENVIRONMENTS = (".venv", "venv")
_PROGRAMS = "node_modules/.bin"


class Project(Struct, frozen=True):
    """The environment of a folder."""

    environment: str = ""  # its Python environment, relative; empty if none
    version: str = ""  # version of its interpreter; empty if unknown
    programs: tuple[str, ...] = ()  # folders that come first on PATH, relative
    installations: tuple[str, ...] = ()  # host folders that commands see for it, read-only
    suites: tuple[SuiteCommand, ...] = ()  # commands that run its tests, most likely first
    locks: tuple[str, ...] = ()  # names of its lock files
    missing: tuple[str, ...] = ()  # messages about what is missing and how to grant it
    place: str = ""  # subfolder in which commands start, relative; empty for the folder itself

    def path(self, workspace: str) -> tuple[str, ...]:
        """Return the folders that come first on PATH for commands that see the folder at ``workspace``."""
        programs = tuple(f"{path}/bin" for path in self.installations if Path(path, "bin", "node").exists())
        return (*(f"{workspace}/{name}" for name in self.programs), *programs)

    def variables(self, workspace: str) -> dict[str, str]:
        return {"VIRTUAL_ENV": f"{workspace}/{self.environment}"} if self.environment else {}

    def mounts(self, profile: Profile, toolchain: Toolchain) -> tuple[Mount, ...]:
        """Return the mounts that are needed in addition to existing ones."""
        there = {mount.inside for mount in (*profile.mounts, *toolchain.mounts())}
        return tuple(Mount(path, path) for path in self.installations if path not in there)

    @property
    def text(self) -> str:
        """Description for the model, at most two lines; empty if there is nothing to report."""
        version = f" ({self.version})" if self.version else ""
        python = os.path.relpath(f"{self.environment}/bin/python", self.place or ".")
        tools = [f"python is {python}{version}"] if self.environment else []
        tools += [f"{_PROGRAMS} is on PATH"] if any(name.endswith(_PROGRAMS) for name in self.programs) else []
        tools += [f"lock files: {', '.join(self.locks)}"] if self.locks else []
        lines = [f"project: {'; '.join(tools)}"] if tools else []
        lines += [f"tests: {' or '.join(suite.command for suite in self.suites)}"] if self.suites else []
        return "\n".join(lines)


def find_project(
    folder: Path, include: tuple[str, ...] = (), search: str = "", granted: tuple[str, ...] = (), subfolder: str = ""
) -> Project:
    """Inspect a folder. ``search`` is the user's PATH; if it is empty, all programs are assumed to be installed.

    Args:
        include: Ignored paths that are copied too; an environment may be one of them.
        granted: Host folders that the user lets commands see.
        subfolder: The working folder of commands, relative to the folder. What it contains comes first.
    """
    root = folder.resolve()
    here = root / subfolder
    own = (f"{subfolder}/{name}" for name in _ENVIRONMENTS if subfolder)
    names = (*own, *_ENVIRONMENTS, *(name.rstrip("/") for name in include))
    interpreter = find_interpreter(root, names, granted) or Interpreter("", works=False)
    environment = interpreter.environment if interpreter.works else ""
    node, no_node = find_node(here if is_file(here / "package.json") else root, search, granted)
    programs = [f"{environment}/bin"] if environment else []
    packages = dict.fromkeys(os.path.normpath(f"{at}/{_PROGRAMS}") for at in (subfolder or ".", "."))
    programs += [name for name in packages if (root / name).is_dir()]
    granted_search = (path for path in search.split(":") if any(Path(path).is_relative_to(each) for each in granted))
    seen = (*SYSTEM_PATH, *(f"{prefix}/bin" for prefix in node), *granted_search, *(f"{root}/{at}" for at in programs))

    def has(program: str) -> bool:
        return not search or any(is_file(Path(at, program)) for at in seen)

    suites = find_suites(here, environment and os.path.relpath(root / environment, here), has)
    missing = (*interpreter.missing, *no_node, *uninstalled(here, root, interpreter.environment))
    return Project(
        environment=environment,
        version=interpreter.version,
        programs=tuple(programs),
        installations=tuple(dict.fromkeys((*interpreter.installations, *node))),
        suites=suites,
        locks=lock_files(here) or lock_files(root),
        missing=(*missing, *missing_program(suites, has)),
        place=subfolder,
    )
