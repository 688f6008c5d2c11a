"""Opens a kept run by what a person calls it."""

from __future__ import annotations

import os
from pathlib import Path

from stackmem.trace.open_run import Run

from .directories import runs_dir
from .plugins import load_plugins
from .rundir import find_run
from .settings import resolve
from .settings_files import user_path


def open_run(run: str | os.PathLike[str]) -> Run:
    """A kept run, given by folder, id, unique prefix or ``last``; nothing of its trace is read yet.

    Raises:
        UsageError: There is no such run.

    """
    load_plugins()  # the run's strategy may be one of theirs
    cwd = Path.cwd()
    settings = resolve({}, os.environ, cwd, user_path(os.environ), {}).settings
    return Run(find_run(os.fspath(run), runs_dir(settings, cwd, os.environ)))
