"""``stackmem report``."""

from __future__ import annotations

from pathlib import Path

import typer

from stackmem.cli.options import argument, option, switch
from stackmem.core.text import quantity
from stackmem.lab.comparison.write import write_report
from stackmem.review.report.page import open_page
from stackmem.review.shown_work import shown_work


def command(
    folder: Path = argument("DIR", "The folder of a bench."),
    output: str | None = option(
        "--output -o", "FILE.html, .md, .csv or .parquet; by default report.html in DIR.", "FILE"
    ),
    baseline: str | None = option(
        "--baseline", "The strategy to compare with; by default full, or stackheap.", "STRATEGY"
    ),
    read_multiple: float | None = option(
        "--read-multiple", "Price of a cached token in input tokens, for verdicts; by default the model's own.", "X"
    ),
    open_it: bool = switch("--open", "Open it in the browser."),
) -> None:
    """Write a report on the success and cost of a bench's strategies: tables with intervals, plots, every trial."""
    with shown_work():
        written = write_report(folder, output, baseline=baseline, read_multiple=read_multiple)
    size = written.path.stat().st_size / 1000
    typer.echo(f"wrote {written.path} ({quantity(written.trials, 'trial')}, {size:,.0f} kB)")
    if open_it:
        open_page(written.path)
