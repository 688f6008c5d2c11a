"""``stackmem trace recover``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Save the good beginning of a run whose trace is broken into a new run."""
    from stackmem.cli.finding import run_folder
    from stackmem.kept.recover import recover_run

    found = recover_run(run_folder(run, runs_dir))
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(found).decode())
        return
    typer.echo(f"saved {found.records:,} records, up to step {found.step:,}, as {found.run}")
    typer.echo(f"lost {found.lost_bytes:,} bytes: {found.why}")
    typer.echo(f"it cannot be resumed: {found.not_resumable}" if found.not_resumable else "it can be resumed")
