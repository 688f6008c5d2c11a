"""The run that a person names, and the folder of all of them."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from stackmem.kept.find import find_run
from stackmem.settings.directories import runs_folder as find_runs_folder
from stackmem.tools.plugins import load_plugins


def run_folder(named: str, runs_dir: str | None) -> Path:
    """Raises ``UsageError`` where no run, or several, are named so."""
    for warning in load_plugins():
        typer.echo(warning, err=True)
    return find_run(named, runs_folder(runs_dir))


def runs_folder(runs_dir: str | None) -> Path:
    """Raises ``UsageError`` where the folder cannot be made or written."""
    return find_runs_folder(runs_dir, os.environ, Path.cwd())
