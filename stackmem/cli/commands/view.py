"""``stackmem view``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import RunName, flag
from stackmem.cli.places import run_folder
from stackmem.report.write import open_page, write_page


def command(
    run: RunName,
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Another run, to show both from where they part.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; else view.html in the run's folder."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Write a run, or two side by side, as one HTML file: frames, context, heap, cache, and every step."""
    named = [run] if other is None else [run, other]
    path = write_page([run_folder(one, runs_dir) for one in named], output)
    typer.echo(f"wrote {path} ({path.stat().st_size / 1000:,.0f} kB)")
    if open_it:
        open_page(path)
