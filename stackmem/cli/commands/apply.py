"""``stackmem apply``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Apply a run's patch to the folder it was copied from; refused, and nothing changed, where a file has changed."""
    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen.solving import readable
    from stackmem.run.patch import apply_run

    folder, changed = apply_run(run_folder(run, runs_dir))
    typer.echo(f"applied to {folder}: {len(changed)} {'file' if len(changed) == 1 else 'files'}")
    for path in changed:
        typer.echo(f"  {readable(path)}")
