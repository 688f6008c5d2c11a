"""``stackmem apply``."""

from __future__ import annotations

import typer

from stackmem.cli.options import RunName, flag, run_folder
from stackmem.cli.screen.text import readable
from stackmem.run.ending import apply_run


def command(run: RunName, runs_dir: str | None = flag("runs_dir")) -> None:
    """Apply a run's patch to the folder it came from. If a file there has changed since, nothing is applied."""
    brought = apply_run(run_folder(run, runs_dir))
    not_done = brought.outcome not in ("", "solved", "finished")
    typer.echo(f"{readable(brought.describe())}{f' (the run is {brought.outcome})' if not_done else ''}")
    for path in brought.changed:
        typer.echo(f"  {readable(path)}")
