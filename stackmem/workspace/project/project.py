"""What a folder brings to work with, and what of it commands find: one look, before the run begins."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.python import Toolchain

from .installations import Interpreter, find_interpreter, find_node, is_file
from .suites import SuiteCommand, find_suites, lock_files, uninstalled

_ENVIRONMENTS = (".venv", "venv")
_PROGRAMS = "node_modules/.bin"


class Project(Struct, frozen=True):
    """A folder's own environment."""

    environment: str = ""  # the Python environment in it, relative; empty where there is none
    version: str = ""  # of its interpreter; empty where nothing says it
    programs: tuple[str, ...] = ()  # folders of it that stand first on PATH, relative
    installations: tuple[str, ...] = ()  # folders of the host that commands see for it, read-only
    suites: tuple[SuiteCommand, ...] = ()  # commands that run its tests, the likeliest first
    locks: tuple[str, ...] = ()  # names of its lock files
    missing: tuple[str, ...] = ()  # what is missing and how to grant it, one sentence each
    place: str = ""  # the folder in it where commands begin, relative; empty for the folder itself

    def path(self, workspace: str) -> tuple[str, ...]:
        """What stands first on PATH of commands that see the folder there."""
        programs = tuple(f"{path}/bin" for path in self.installations if Path(path, "bin", "node").exists())
        return (*(f"{workspace}/{name}" for name in self.programs), *programs)

    def variables(self, workspace: str) -> dict[str, str]:
        return {"VIRTUAL_ENV": f"{workspace}/{self.environment}"} if self.environment else {}

    def mounts(self, profile: Profile, toolchain: Toolchain) -> tuple[Mount, ...]:
        """What has to be mounted beside what is there already."""
        there = {mount.inside for mount in (*profile.mounts, *toolchain.mounts())}
        return tuple(Mount(path, path) for path in self.installations if path not in there)

    @property
    def text(self) -> str:
        """What the model is told: two lines at most; empty where there is nothing to tell."""
        version = f" ({self.version})" if self.version else ""
        python = os.path.relpath(f"{self.environment}/bin/python", self.place or ".")
        tools = [f"python is {python}{version}"] if self.environment else []
        tools += [f"{_PROGRAMS} is on PATH"] if any(name.endswith(_PROGRAMS) for name in self.programs) else []
        tools += [f"lock files: {', '.join(self.locks)}"] if self.locks else []
        lines = [f"project: {'; '.join(tools)}"] if tools else []
        lines += [f"tests: {' or '.join(suite.command for suite in self.suites)}"] if self.suites else []
        return "\n".join(lines)


def find_project(
    folder: Path, include: tuple[str, ...] = (), search: str = "", granted: tuple[str, ...] = (), place: str = ""
) -> Project:
    """Look at a folder."""
    root = folder.resolve()
    here = root / place
    own = (f"{place}/{name}" for name in _ENVIRONMENTS if place)
    names = (*own, *_ENVIRONMENTS, *(name.rstrip("/") for name in include))
    interpreter = find_interpreter(root, names, granted) or Interpreter("", works=False)
    environment = interpreter.environment if interpreter.works else ""
    node, no_node = find_node(here if is_file(here / "package.json") else root, search, granted)
    programs = [f"{environment}/bin"] if environment else []
    packages = dict.fromkeys(os.path.normpath(f"{at}/{_PROGRAMS}") for at in (place or ".", "."))
    programs += [name for name in packages if (root / name).is_dir()]
    return Project(
        environment=environment,
        version=interpreter.version,
        programs=tuple(programs),
        installations=tuple(dict.fromkeys((*interpreter.installations, *node))),
        suites=find_suites(here, environment and os.path.relpath(root / environment, here)),
        locks=lock_files(here) or lock_files(root),
        missing=(*interpreter.missing, *no_node, *uninstalled(here, root, interpreter.environment)),
        place=place,
    )
