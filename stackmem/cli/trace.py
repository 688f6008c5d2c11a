"""``stackmem trace``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .options import flag

if TYPE_CHECKING:
    from pathlib import Path

    from stackmem.measure.moments import Moment

RUN_HELP = "A run's folder, id, unique prefix of one, or 'last'."

app = typer.Typer(help="Look at a run's trace, and measure it.", no_args_is_help=True)


@app.command("show", short_help="Show a run's frames as a tree.")
def show_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Show a run's frames as a tree, with what each took and how it ended."""
    from stackmem.measure.frames import frames

    from .finding import run_folder
    from .frame_tree import tree

    folder = run_folder(run, runs_dir)
    rows = frames(moments_of(folder))
    if json:
        import msgspec

        typer.echo(msgspec.json.encode({"run": folder.name, "frames": rows}).decode())
        return
    typer.echo("\n".join(tree(rows)))


def moments_of(folder: Path) -> Iterator[Moment]:
    """The moments of a run, those it shares with its parents first."""
    from stackmem.measure.moments import moments
    from stackmem.trace.lineage import RunReader

    return moments((record.at, record.event) for record in RunReader(folder))
