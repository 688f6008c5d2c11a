"""``stackmem diff``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="A run's folder, id, unique prefix of one, or 'last'.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The run to compare it with.")],
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Say where two runs part, and what each came to."""
    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen.diff_text import diff_text
    from stackmem.cli.screen.solving import readable
    from stackmem.trace.diff import diff_runs
    from stackmem.trace.open_run import Run

    found = diff_runs(Run(run_folder(a, runs_dir)), Run(run_folder(b, runs_dir)))
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(found).decode())
        return
    typer.echo(readable(diff_text(found)))
