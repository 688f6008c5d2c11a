"""``stackmem trace``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from stackmem.cli.options import flag

if TYPE_CHECKING:
    from pathlib import Path

    from stackmem.measure.moments import Moment

RUN_HELP = "A run's folder, id, unique prefix of one, or 'last'."

app = typer.Typer(help="Look at a run's trace, and measure it.", no_args_is_help=True)


@app.command("show", short_help="Show a run's frames as a tree, or its steps.")
def show_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    steps: Annotated[bool, typer.Option("--steps", help="Show every step instead of every frame.")] = False,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Show a run's frames as a tree, or its steps, with what each took and how it ended."""
    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen import frame_tree, step_table
    from stackmem.cli.screen.columns import terminal_width
    from stackmem.kept.cache_bill import moments_of
    from stackmem.kept.run_list import name_of
    from stackmem.measure.frames import frames
    from stackmem.measure.timeline import timeline
    from stackmem.trace.lineage import came_from

    folder = run_folder(run, runs_dir)
    last: list[Moment] = []
    seen = _noting_last(moments_of(folder), last)
    by_step = tuple(timeline(seen)) if steps else ()
    by_frame = () if steps else frames(seen)
    if json:
        import msgspec

        told = {"steps": by_step} if steps else {"frames": by_frame}
        head = {"run": name_of(folder), "outcome": last[0].after.outcome, "parent": came_from(folder)}
        typer.echo(msgspec.json.encode(head | told).decode())
        return
    width = terminal_width()
    lines = step_table.table(by_step, width) if steps else frame_tree.tree(by_frame, width)
    typer.echo("\n".join([_title(folder, last[0]), "", *lines]))


@app.command("stats", short_help="Measure a run.")
def stats_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    simulate: Annotated[
        str | None,
        typer.Option("--simulate", metavar="MODEL", help="Also say what a model's prompt cache would have done."),
    ] = None,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Measure a run: what it took, how it used its memory, and what it lost."""
    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen import cache_text, metric_table
    from stackmem.kept.cache_bill import cache_bill, moments_of
    from stackmem.kept.run_list import name_of
    from stackmem.measure.metrics import measure

    folder = run_folder(run, runs_dir)
    billed = cache_bill(folder, simulate) if simulate is not None else None
    last: list[Moment] = []
    found = measure(_noting_last(moments_of(folder), last))
    if json:
        import msgspec

        told = {"run": name_of(folder), "outcome": last[0].after.outcome, "metrics": found, "cache": billed}
        typer.echo(msgspec.json.encode(told).decode())
        return
    lines = [_title(folder, last[0]), "", *metric_table.table(found)]
    typer.echo("\n".join([*lines, "", *cache_text.lines(billed)] if billed is not None else lines))


def _noting_last(run: Iterable[Moment], last: list[Moment]) -> Iterator[Moment]:
    for moment in run:
        last[:] = [moment]
        yield moment
    if not last:
        from stackmem.errors import TraceError

        raise TraceError("the trace holds no record; the run ended before its first one")


def _title(folder: Path, last: Moment) -> str:
    from stackmem.cli.screen.progress import one_line
    from stackmem.kept.run_list import name_of

    state = last.after
    start = state.begun
    estimated = "; the model reported no tokens, they are estimated (~)" if state.usage.estimated else ""
    return (
        f"{one_line(name_of(folder))}: {state.outcome} after {state.step} steps, model {one_line(start.model)}, "
        f"strategy {one_line(start.strategy)}{estimated}{_origin(folder, last)}"
    )


def _origin(folder: Path, last: Moment) -> str:
    """The run that this one began from, on a line of its own."""
    from msgspec import UNSET

    from stackmem.cli.screen.progress import one_line
    from stackmem.trace.lineage import begun_by

    fork, program = begun_by(folder), last.after.program
    if fork is not None:
        return f"\nforked from {one_line(fork.parent)} at record {fork.at:,}"
    if program is None or program.start.continued is UNSET:
        return ""
    told = program.start.continued
    changed = f"; read anew: {', '.join(map(one_line, told.changed))}" if told.changed else ""
    return (
        f"\nwent on from {one_line(told.parent)} with an edited program: {told.answers:,} of {told.recorded:,} answers "
        f"held{changed}"
    )
