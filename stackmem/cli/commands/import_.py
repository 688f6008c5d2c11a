"""``stackmem import``."""

from __future__ import annotations

from pathlib import Path

import typer

from stackmem.cli.options import Json, argument, flag, option, runs_folder
from stackmem.cli.screen.text import echo_json, readable
from stackmem.kept.import_ import import_file


def command(
    file: Path = argument("FILE", "A recording of another agent."),
    spelled: str | None = option("--format", "atif, claude-code or mini; found out without it.", "FORMAT"),
    json: Json = False,
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Take another agent's recording in as a run that can be looked at, measured and costed, but not replayed."""
    done = import_file(file, spelled, runs_folder(runs_dir))
    if json:
        echo_json(done)
        return
    cost = "cost unknown" if done.cost_usd is None else f"${done.cost_usd:.4f}"
    typer.echo(f"{done.run}: {done.steps:,} steps, {done.frames:,} frames, {done.usage.total:,} tokens, {cost}")
    typer.echo(readable(f"imported from {done.origin}, model {', '.join(done.models) or 'unknown'}"))
    for sentence in done.left_out[:10]:
        typer.echo(readable(f"left out: {sentence}"))
    if len(done.left_out) > 10:
        typer.echo(f"left out: {len(done.left_out) - 10:,} more, all of them in {done.run_dir}/imported.json")
