"""``stackmem trace redact``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    pattern: Annotated[
        list[str],
        typer.Option("--pattern", metavar="REGEX", help="What is to be replaced; may be given several times."),
    ],
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Copy a run with each match replaced by as many x; the copy can be verified, viewed and measured."""
    from stackmem.cli.finding import run_folder
    from stackmem.kept.redact import redact_run

    made = redact_run(run_folder(run, runs_dir), pattern)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(made).decode())
        return
    count = len(made.records)
    typer.echo(f"{made.run} is a redacted copy of {made.of}: {count:,} {'record' if count == 1 else 'records'} changed")
    typer.echo("its files and its patch are left out, and it cannot be resumed or forked")
