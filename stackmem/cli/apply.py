"""``stackmem apply``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Apply a run's patch to the folder it was copied from; refused, and nothing changed, where a file has changed."""
    from stackmem.harness.patch import apply_run

    from .finding import run_folder
    from .solving import readable

    folder, changed = apply_run(run_folder(run, runs_dir))
    typer.echo(f"applied to {folder}: {len(changed)} {'file' if len(changed) == 1 else 'files'}")
    for path in changed:
        typer.echo(f"  {readable(path)}")
