"""``stackmem worlds``."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Generate tasks that test memory, from a seed.", no_args_is_help=True)


@app.command("list")
def list_command(
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """List the families of worlds."""
    from stackmem.worlds import about, families

    rows = [{"name": name, "says": about(name)} for name in families()]
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(rows).decode())
        return
    for row in rows:
        typer.echo(f"{row['name']:<16} {row['says']}")


@app.command("make", short_help="Make a task folder.")
def make_command(
    family: Annotated[str, typer.Argument(metavar="FAMILY", help="As stackmem worlds list shows them.")],
    folder: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="An empty folder, or a new one.")],
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed makes the same bytes.")] = 0,
    horizon: Annotated[int, typer.Option("--horizon", metavar="N", help="Tool calls that perfect memory needs.")] = 60,
    noise: Annotated[float, typer.Option("--noise", metavar="X", help="1 is 1,500 characters in a unit's output.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Make a task folder that stackmem solve and stackmem tasks check take, and real models can work on.

    The horizon is kept exactly, or within 2 %.
    """
    from pathlib import Path

    from stackmem.worlds import make, manifest

    made = make(family, seed, horizon, noise, Path(folder).expanduser())
    told = manifest(made)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode({"folder": str(made), **told}).decode())
        return
    typer.echo(
        f"{made}: {family}, {told['units']} units, {told['necessary_steps']} steps with perfect memory, "
        f"{len(told['facts'])} facts\nrun it: stackmem solve {made} --model NAME [--isolation memory]"
    )
