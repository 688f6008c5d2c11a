"""The run that a person names, the folder of all of them, and a path as she writes it."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from stackmem.kept.find import find_run
from stackmem.settings import directories
from stackmem.tools.plugins import load_plugins


def run_folder(named: str, runs_dir: str | None) -> Path:
    """Raises ``UsageError`` where no run, or several, are named so."""
    warn_of_plugins()
    return find_run(named, runs_folder(runs_dir))


def runs_folder(runs_dir: str | None) -> Path:
    """Raises ``UsageError`` where the folder cannot be made or written."""
    return directories.runs_folder(runs_dir, os.environ, Path.cwd())


def warn_of_plugins() -> None:
    """Load what plug-ins bring; those that are left out are said on stderr."""
    for warning in load_plugins():
        typer.echo(warning, err=True)


def absolute(path: str) -> Path:
    """The path from where she stands, ``~`` and links resolved."""
    return (Path.cwd() / Path(path).expanduser()).resolve()
