"""What this machine can isolate, and where runs are kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError, WorkspaceError
from stackmem.history.repository import shares_blocks
from stackmem.models.registry import unready
from stackmem.settings.directories import runs_dir, sandbox_dir
from stackmem.settings.keys import key_problem
from stackmem.settings.settings import Resolved, resolve
from stackmem.tools.plugins import plugin_problems
from stackmem.workspace.isolation.probe import LevelReport, survey
from stackmem.workspace.project.instructions import find_instructions
from stackmem.workspace.project.project import Project, find_project

from .folder_choice import layer_over
from .git_inside import history_told, place_of
from .prepare import profile_of
from .run_folder import TRACE

_AUTO = ("bubblewrap", "namespaces")


class Examined(Struct, frozen=True):
    """active: The level that ``--isolation auto`` takes; empty where there is none.
    no_layer: Why a run would work on a copy, and not on a layer over a folder; empty where it would not.
    models: Prefix of a provider's models, to why they cannot be asked; empty where they can.
    shares_blocks: Whether such a copy shares its blocks with the folder's files.
    """

    active: str
    runs_dir: str
    sandbox_dir: str
    levels: tuple[LevelReport, ...]
    warnings: tuple[str, ...]
    no_layer: str
    models: Mapping[str, str]
    shares_blocks: bool = False
    project: Project | None = None
    instructions: str = ""
    git: str = ""


def examine(flags: Mapping[str, object], folder: Path | None = None) -> Examined:
    """Try every level with the arguments it always uses, and look at a folder to work on."""
    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; name one that exists")
    warnings = list(plugin_problems())
    cwd = Path.cwd()
    resolved = resolve(flags, os.environ, cwd)
    settings = resolved.settings
    profile = profile_of(settings, cwd)
    root, place, why = place_of(folder.resolve(), settings) if folder else (None, "", ())
    warnings += why
    granted = tuple(mount.host for mount in profile.mounts)
    levels = tuple(survey(profile))
    active = next((found.level for found in levels if found.available and found.isolation in _AUTO), "")
    runs = runs_dir(settings, cwd, os.environ)
    if problem := key_problem(os.environ):
        warnings.append(f"runs are not signed: {problem}")
    if wide := sum(run.stat().st_mode & 0o077 > 0 for run in runs.glob("*") if (run / TRACE).exists()):
        warnings.append(
            f"other users of this machine can look into {wide} of the runs in {runs}; chmod -R go= closes them"
        )
    if os.geteuid() == 0:
        warnings.append("you are root: a fault of the sandbox would have all rights; an ordinary user is safer")
    sandbox = sandbox_dir(settings, cwd, os.environ)
    no_layer = _no_layer(root, resolved, cwd, (runs, sandbox))
    return Examined(
        active,
        str(runs),
        str(sandbox),
        levels,
        tuple(warnings),
        no_layer,
        unready(os.environ),
        bool(no_layer) and root is not None and shares_blocks(root, sandbox),
        find_project(root, settings.include, os.environ.get("PATH", ""), granted, place) if root else None,
        find_instructions(folder) if folder else "",
        history_told(root, settings) if root else "",
    )


def _no_layer(folder: Path | None, resolved: Resolved, cwd: Path, folders: tuple[Path, Path]) -> str:
    """Why none can lie over the folder, or over an empty one."""
    with tempfile.TemporaryDirectory() as empty:
        try:
            return layer_over(folder or Path(empty), (), resolved, cwd, folders)[1]
        except WorkspaceError as error:
            return str(error)
