"""``stackmem worlds``."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from stackmem.cli.options import Json, JsonArray, argument, option
from stackmem.cli.screen.text import echo_json
from stackmem.lab.worlds import WORLDS, description, families, make, manifest

app = typer.Typer(help="Generate tasks that test memory, from a seed.", no_args_is_help=True)


@app.command("list")
def list_command(
    json: JsonArray = False,
) -> None:
    """List the families of worlds."""
    rows = [{"name": name, "says": description(name), "hurts": list(WORLDS[name].hurts)} for name in families()]
    if json:
        echo_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']:<16} {row['says']}")


@app.command("make", short_help="Make a task folder.")
def make_command(
    family: str = argument("FAMILY", "A family from stackmem worlds list."),
    folder: str = option("-o --output", "An empty folder, or a new one.", "DIR", default=...),
    seed: int = option("--seed", "The same seed gives the same bytes.", "N", default=0),
    horizon: int = option("--horizon", "Tool calls needed with perfect memory.", "N", default=60),
    noise: float = option("--noise", "1 is 1,500 characters in a unit's output.", "X", default=1),
    repository: str = option("--repository", "only for history: the git repository to use.", "DIR", default=""),
    json: Json = False,
) -> None:
    """Make a task folder for stackmem solve and stackmem tasks check. Real models can work on it too.

    The horizon is exact, or within 2 %.
    """
    source = Path(os.path.expanduser(repository)).absolute() if repository else None
    path = make(family, seed, horizon, noise, Path(os.path.expanduser(folder)), source)
    world = manifest(path)
    if json:
        echo_json({"folder": str(path), **world})
        return
    typer.echo(
        f"{path}: {family}, {world['units']} units, {world['necessary_steps']} steps with perfect memory, "
        f"{len(world['facts'])} facts\nrun it: stackmem solve {path} --model NAME [--isolation memory]"
    )
