"""``stackmem runs``: the runs there are, as a table, and their removal."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.cells import cell_len

from stackmem.cli.options import JsonArray, argument, flag, option, run_folder, runs_folder
from stackmem.cli.screen.text import align, echo_json, one_line, readable, terminal_width
from stackmem.kept.run_list import INTERRUPTED, RunRow, choose_runs, list_runs, remove_run

_HEADINGS = ("run", "outcome", "steps", "frames", "tokens", "cost", "seconds", "model", "from")
_SPARED = ("model", "frames", "seconds", "tokens", "from")  # on a terminal without room, the first one first

app = typer.Typer(help="List the runs there are.", invoke_without_command=True)


@app.callback()
def list_command(
    context: typer.Context,
    filters: list[str] | None = option("--filter", "Show what fulfils it, as outcome=solved or steps>20.", "CONDITION"),
    sort: str = option("--sort", "Order by this; -FIELD has the largest first.", "FIELD", default="-started"),
    limit: int | None = option("--limit", "Show no more than N runs.", "N"),
    runs_dir: str | None = flag("runs_dir"),
    json: JsonArray = False,
) -> None:
    """List the runs, the newest first: what each came to, and what it took."""
    if context.invoked_subcommand is not None:
        return
    folder = runs_folder(runs_dir)
    rows = choose_runs(list_runs(folder), filters or (), sort, limit)
    if json:
        echo_json(rows)
        return
    typer.echo("\n".join(table(rows, terminal_width())) if rows else f"{folder} holds no such runs")
    if hint := how_to_resume(rows):
        typer.echo(hint, err=True)


@app.command("rm", short_help="Remove runs with their workspaces.")
def rm_command(
    named: list[str] = argument("RUN...", "Runs: a folder, id, unique prefix of one, or 'last'."),
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Remove runs with their workspaces; refused while forks depend on them, or a process writes them."""
    folders = list(dict.fromkeys(run_folder(one, runs_dir).resolve() for one in named))
    for folder in folders:
        remove_run(folder)
        typer.echo(f"removed {readable(folder.name)}")


def table(rows: Sequence[RunRow], width: int | None = None) -> list[str]:
    """One line for each run under a line of headings; a dash stands for what is not known.

    Where a line would be longer than ``width``, columns are left out; so is that of parents where no run has one.
    """
    lines = [dict(zip(_HEADINGS, _HEADINGS, strict=True)), *map(_cells, rows)]
    kept = [name for name in _HEADINGS if name != "from" or any(row.parent for row in rows)]
    for name in [name for name in _SPARED if name in kept]:
        needed = sum(max(cell_len(line[column]) for line in lines) for column in kept) + 2 * (len(kept) - 1)
        if width is None or needed <= width:
            break
        kept.remove(name)
    return align([[line[name] for name in kept] for line in lines], left=(0, 1), outcomes=1)


def _cells(row: RunRow) -> dict[str, str]:
    return {
        "run": one_line(row.run),
        "outcome": one_line(row.outcome),
        "steps": _number(row.steps),
        "frames": _number(row.frames),
        "tokens": _number(row.tokens),
        "cost": "-" if row.cost_usd is None else f"${row.cost_usd:.4f}",
        "seconds": "-" if row.wall_seconds is None else f"{row.wall_seconds:,.1f}",
        "model": one_line(row.model) or "-",
        "from": one_line(row.parent) or "-",
    }


def how_to_resume(rows: Sequence[RunRow]) -> str:
    """How an interrupted run goes on: the newest is named; empty where none is."""
    stopped = sorted(row.run for row in rows if row.outcome == INTERRUPTED)
    return (
        f"interrupted runs go on with stackmem resume, as: stackmem resume {one_line(stopped[-1])}" if stopped else ""
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
