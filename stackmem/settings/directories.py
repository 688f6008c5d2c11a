"""Determines the directories for runs and workspaces, and creates and tests them before anything else happens.

In a checkout of stackmem they are inside the checkout, otherwise in the user's state directory. Levels that cannot
mount run commands at the workspace's real path, and pytest, git and others read settings from all parent folders. For
these levels, workspaces stay out of the checkout.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.workspace.isolation.levels import choose
from stackmem.workspace.profile import Profile

from .options import OPTIONS
from .settings import Settings, resolve
from .settings_files import user_folder

SOURCE = Path(__file__).resolve().parents[2]
"""Folder of the running code; a checkout of stackmem if it is one."""


def checkout(cwd: Path, source: Path = SOURCE) -> Path | None:
    """Return the checkout of stackmem that contains ``cwd``, or None.

    Only the checkout of the running code counts: a folder that merely looks like one is untrusted.
    """
    if not cwd.resolve().is_relative_to(source) or not (source / "stackmem" / "__init__.py").is_file():
        return None
    try:
        is_ours = 'name = "stackmem"' in (source / "pyproject.toml").read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return source if is_ours else None


def runs_dir(settings: Settings, cwd: Path, environ: Mapping[str, str], source: Path = SOURCE) -> Path:
    """Return the directory for runs, creating it if necessary.

    Raise UsageError if the directory cannot be created or written.
    """
    return _make_folder("runs_dir", settings.runs_dir, Path("runs"), "runs", checkout(cwd, source), environ)


def runs_folder(name: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the directory of runs that a command reads: the named one, or the one in the settings.

    It need not exist or be writable. Raise UsageError if a setting is not valid.
    """
    settings = resolve({"runs_dir": name}, environ, cwd).settings
    return _choose_folder("runs_dir", settings.runs_dir, Path("runs"), "runs", checkout(cwd), environ)[0]


def runs_places(name: str | None, environ: Mapping[str, str], cwd: Path) -> list[Path]:
    """Return the directories to search for a run: that of ``runs_folder``, and unless the user named it, also the other
    one of the checkout's and the user's directories.

    Raise UsageError if a setting is not valid.
    """
    configured = resolve({"runs_dir": name}, environ, cwd).settings.runs_dir
    first = runs_folder(name, environ, cwd)
    if configured is not None:
        return [first]
    home = checkout(SOURCE)
    both = [*([home / "runs"] if home else []), user_folder(environ, "XDG_STATE_HOME", ".local/state", "runs")]
    return [first, *(path for path in both if path is not None and path != first)]


def sandbox_dir(settings: Settings, cwd: Path, environ: Mapping[str, str], source: Path = SOURCE) -> Path:
    """Return the directory for workspaces, creating it if necessary.

    Raise UsageError if the directory cannot be created or written.
    """
    home = checkout(cwd, source) if settings.sandbox_dir is None else None
    if home is not None and not _can_mount(settings):
        home = None
    return _make_folder("sandbox_dir", settings.sandbox_dir, Path("sandbox/work"), "work", home, environ)


def _can_mount(settings: Settings) -> bool:
    """Return whether commands will see the workspace at a path that we choose. True if no run can start at all."""
    if settings.isolation == "memory":
        return True  # the path is only a name and does not exist
    try:
        return choose(settings.isolation, Profile(network=settings.network)).mounts
    except WorkspaceError:
        return True


def _make_folder(
    name: str, path: Path | None, in_checkout: Path, in_state: str, root: Path | None, environ: Mapping[str, str]
) -> Path:
    folder, own = _choose_folder(name, path, in_checkout, in_state, root, environ)
    try:
        # Keep runs private. A directory that the user names, or a checkout, keeps the user's default permissions.
        folder.mkdir(mode=0o777 if own else 0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as tried:
            tried.write(b"\n")
            tried.flush()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        flag = OPTIONS[name].flag
        raise UsageError(f"{folder} cannot be written to ({reason}); use {flag} DIR to choose another") from error
    return folder


def _choose_folder(
    name: str, path: Path | None, in_checkout: Path, in_state: str, root: Path | None, environ: Mapping[str, str]
) -> tuple[Path, bool]:
    """Return the path of a directory, and whether the user named it or it is in a checkout."""
    own = path or (root / in_checkout if root else None)
    folder = own or user_folder(environ, "XDG_STATE_HOME", ".local/state", in_state)
    if folder is None:
        raise UsageError(
            f"neither XDG_STATE_HOME nor HOME is set, so {in_state} has no place; use {OPTIONS[name].flag} DIR"
        )
    return folder, own is not None
