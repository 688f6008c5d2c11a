"""``stackmem whatif``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    traces: Annotated[
        list[str],
        typer.Argument(metavar="TRACE", help="Runs (folder, id, prefix, 'last'), or other agents' recordings."),
    ],
    strategies: Annotated[
        str, typer.Option("--strategies", metavar="LIST", help="Strategies, separated by commas, or 'all'.")
    ] = "all",
    price: Annotated[
        str | None, typer.Option("--price", metavar="MODEL", help="Whose prices and cache hold; the recorded model's.")
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            "--latency", metavar="SECONDS", min=0.0, max=86_400.0, help="Between requests; as recorded without it."
        ),
    ] = None,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """Say what a recorded run would have held and cost under other strategies, its actions being the same."""
    import msgspec

    from stackmem.cli.finding import runs_folder
    from stackmem.cli.screen.columns import terminal_width
    from stackmem.cli.screen.whatif_table import lines, together
    from stackmem.kept.whatif import spelled_strategies, what_if
    from stackmem.tools.plugins import load_plugins

    for warning in load_plugins():
        typer.echo(warning, err=True)
    folder, wanted = runs_folder(runs_dir), spelled_strategies(strategies)
    found = []
    for place, named in enumerate(traces):
        found.append(what_if(named, folder, wanted, price, latency))
        if not json:
            typer.echo("\n".join([*([""] if place else []), *lines(found[-1], terminal_width())]))
    if len(found) > 1 and not json:
        typer.echo("\n".join(["", *together(found, terminal_width())]))
    if json:
        typer.echo(msgspec.json.encode(found).decode())
