"""``stackmem import``."""

from __future__ import annotations

from pathlib import Path

import typer

from stackmem.cli.options import Json, argument, flag, option, runs_folder
from stackmem.cli.screen.text import echo_json, readable, spell_cost
from stackmem.core.text import quantity
from stackmem.formats.import_ import ImportedRun, import_file
from stackmem.review.shown_work import shown_work


def command(
    file: Path = argument("FILE", "A recording of another agent."),
    spelled: str | None = option(
        "--format", "atif, chat, claude-code, codex, gemini-cli, inspect, mini…; detected by default.", "FORMAT"
    ),
    session: str = option("--session", "Import only the session with this id.", "ID", ""),
    json: Json = False,
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Import another agent's recording as a run that can be viewed, measured and costed, but not replayed."""
    with shown_work():
        runs = import_file(file, spelled, runs_folder(runs_dir), session)
    if json:
        echo_json(runs[0] if len(runs) == 1 else runs)
        return
    for run in runs:
        _tell(run)


def _tell(run: ImportedRun) -> None:
    cost = spell_cost(run.cost_usd, run.usage.total)
    counts = f"{quantity(run.steps, 'step')}, {quantity(run.frames, 'frame')}"
    typer.echo(f"{run.run}: {counts}, {run.usage.total:,} tokens, {cost}")
    typer.echo(readable(f"imported from {run.origin}, model {', '.join(run.models) or 'unknown'}"))
    for sentence in run.left_out[:10]:
        typer.echo(readable(f"left out: {sentence}"))
    if len(run.left_out) > 10:
        typer.echo(f"left out: {len(run.left_out) - 10:,} more; {run.run_dir}/imported.json lists all")
