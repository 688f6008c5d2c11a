"""``stackmem runs rm``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    named: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs: a folder, id, unique prefix of one, or 'last'.")
    ],
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Remove runs with their workspaces; refused while forks depend on them, or a process writes them."""
    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen.solving import readable
    from stackmem.kept.removal import remove_run

    folders = list(dict.fromkeys(run_folder(one, runs_dir).resolve() for one in named))
    for folder in folders:
        remove_run(folder)
        typer.echo(f"removed {readable(folder.name)}")
