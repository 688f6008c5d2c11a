"""``stackmem report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stackmem.report.comparison.write import write_report
from stackmem.report.write import open_page


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a bench.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="FILE.html, .md or .csv; else report.html in DIR."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="STRATEGY", help="What the others are held against; else full or stackheap."
        ),
    ] = None,
    read_multiple: Annotated[
        float,
        typer.Option("--read-multiple", metavar="X", help="Price of a cached token, in input tokens, for verdicts."),
    ] = 0.1,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write what the strategies of a bench solved and cost: tables with intervals, plots, every trial."""
    written = write_report(folder, output, baseline=baseline, read_multiple=read_multiple)
    size = written.path.stat().st_size / 1000
    typer.echo(f"wrote {written.path} ({written.trials:,} trials, {size:,.0f} kB)")
    if open_it:
        open_page(written.path)
