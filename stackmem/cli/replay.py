"""``stackmem replay``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Fold a run's trace and verify every event and prompt against today's rules."""
    from stackmem.harness.replay import replay_run

    from .finding import run_folder

    folder = run_folder(run, runs_dir)
    found = replay_run(folder)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(found).decode())
        return
    typer.echo(f"{found.run}: {found.events:,} events follow from the rules, {found.prompts:,} prompts are equal")
    if not found.same_rules:
        typer.echo("the run was made under other rules: wording and prompt digests were not compared")
    if found.torn_bytes:
        typer.echo(f"its last {found.torn_bytes:,} bytes were cut short by a crash and are no part of the trace")
    typer.echo(f"outcome {found.outcome}, step {found.steps}, {found.frames} frames pushed")
