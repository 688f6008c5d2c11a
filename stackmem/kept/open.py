"""Opens a kept run by what a person calls it."""

from __future__ import annotations

import os
from pathlib import Path

from stackmem.run.run_folder import find_run
from stackmem.settings.directories import runs_dir
from stackmem.settings.settings import resolve
from stackmem.settings.settings_files import user_path
from stackmem.tools.plugins import load_plugins
from stackmem.trace.open_run import Run


def open_run(run: str | os.PathLike[str]) -> Run:
    """A kept run, given by folder, id, unique prefix or ``last``; nothing of its trace is read yet.

    Raises:
        UsageError: There is no such run.

    """
    load_plugins()  # the run's strategy may be one of theirs
    cwd = Path.cwd()
    settings = resolve({}, os.environ, cwd, user_path(os.environ), {}).settings
    return Run(find_run(os.fspath(run), runs_dir(settings, cwd, os.environ)))
