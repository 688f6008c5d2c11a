"""``stackmem apply``."""

from __future__ import annotations

import typer

from stackmem.cli.options import RunName, flag, run_folder, switch
from stackmem.cli.screen.text import readable
from stackmem.core.errors import UsageError
from stackmem.run.ending import apply_run


def command(
    run: RunName,
    paths: list[str] | None = typer.Argument(None, metavar="[PATH]...", help="Apply only these files and folders."),
    runs_dir: str | None = flag("runs_dir"),
    yes: bool = switch("--yes", "Also delete or revert your uncommitted files if the run did."),
) -> None:
    """Apply a run's patch to the folder it came from. Files that you changed as well are merged or left alone."""
    report = apply_run(run_folder(run, runs_dir), paths or (), may_lose=yes)
    not_done = report.outcome not in ("", "solved", "finished")
    typer.echo(f"{readable(report.summary)}{f' (the run is {report.outcome})' if not_done else ''}")
    for path in report.changed:
        typer.echo(f"  {readable(path)}")
    if report.not_applied:
        raise UsageError(report.not_applied)
