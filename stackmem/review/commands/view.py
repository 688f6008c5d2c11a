"""``stackmem view``."""

from __future__ import annotations

import typer

from stackmem.cli.options import RunName, argument, flag, option, run_folder, switch
from stackmem.review.report.page import open_page, write_page
from stackmem.review.shown_work import shown_work


def command(
    run: RunName,
    other: str | None = argument(
        "OTHER", "A second run, to compare both from the point where they diverge.", default=None
    ),
    output: str | None = option("--output -o", "The file to write. Default: view.html in the run's folder.", "FILE"),
    open_it: bool = switch("--open", "Open the page in the browser."),
    runs_dir: str | None = flag("runs_dir", short=False),
) -> None:
    """Write a run, or two side by side, as one HTML file with frames, context, heap, cache and every step."""
    names = [run] if other is None else [run, other]
    with shown_work():
        path = write_page([run_folder(name, runs_dir) for name in names], output)
    typer.echo(f"wrote {path} ({path.stat().st_size / 1000:,.0f} kB)")
    if open_it:
        open_page(path)
