"""``stackmem runs``: list and remove runs."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.cells import cell_len

from stackmem.cli.options import JsonArray, argument, flag, option, run_folder, runs_folder, switch
from stackmem.cli.screen.text import align, echo_json, one_line, readable, spell_cost, terminal_width
from stackmem.core.errors import UsageError
from stackmem.review.kept.removal import prune, prune_histories, read_age, remove_run
from stackmem.review.kept.run_list import UNBEGUN, RunRow, choose_runs, find_runs, is_resumable
from stackmem.run.run_folder import LEDGER

_HEADINGS = ("run", "outcome", "steps", "frames", "tokens", "cost", "seconds", "size", "model", "from", "request")
# columns to drop on a narrow terminal, in this order
_SPARED = ("model", "frames", "seconds", "size", "tokens", "from")
_SHORT = 6
"""Number of characters at the end of an id that also identify a run."""
_REQUEST_CELLS = 24

app = typer.Typer(help="List runs, or remove them.", invoke_without_command=True)


@app.callback()
def list_command(
    context: typer.Context,
    filters: list[str] | None = option(
        "--filter", "Show only runs that match, such as outcome=solved or steps>20; repeatable.", "CONDITION"
    ),
    sort: str = option("--sort", "Sort by this field; -FIELD sorts in descending order.", "FIELD", default="-started"),
    limit: int | None = option("--limit", "Show at most N runs.", "N"),
    runs_dir: str | None = flag("runs_dir"),
    json: JsonArray = False,
) -> None:
    """List runs, newest first, with their outcome and cost."""
    if context.invoked_subcommand is not None:
        return
    folder = runs_folder(runs_dir)
    there = runs_dir is not None or folder.is_dir()
    rows = find_runs(folder, filters or (), sort, limit) if there else choose_runs((), filters or (), sort, limit)
    if json:
        echo_json(rows)
        return
    typer.echo("\n".join(table(rows, terminal_width())) if rows else f"no matching runs in {folder}")
    for hint in filter(None, (how_to_resume(rows), how_to_remove(rows))):
        typer.echo(hint, err=True)


@app.command("rm", short_help="Remove runs with their workspaces.")
def rm_command(
    names: list[str] = argument("RUN", "Runs: folder, id, id prefix, last six characters of an id, or 'last'."),
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Remove runs with their workspaces and their parallel frames.

    Runs with forks and runs in progress cannot be removed.
    """
    folders = list(dict.fromkeys(run_folder(run, runs_dir).resolve() for run in names))
    removed: set[str] = set()
    for folder in folders:
        if folder.name in removed:
            continue  # a parallel frame of a run that was named, too
        for name in remove_run(folder):
            removed.add(name)
            typer.echo(f"removed {readable(name)}")


@app.command("prune", short_help="Remove old runs with their workspaces.")
def prune_command(
    older_than: str | None = option("--older-than", "Remove runs not written for this long. Default: 30d.", "AGE"),
    keep_last: int | None = option(
        "--keep-last", "Keep the newest N runs; without --older-than, remove all others.", "N"
    ),
    dry_run: bool = switch("--dry-run", "Only show what would be removed."),
    runs_dir: str | None = flag("runs_dir"),
    json: JsonArray = False,
) -> None:
    """Remove old runs with their workspaces. Runs in progress and runs with forks are kept."""
    if keep_last is not None and keep_last < 0:
        raise UsageError(f"--keep-last {keep_last} is out of range; use 0 or more")
    folder = runs_folder(runs_dir)
    if (folder.parent / LEDGER).exists():
        raise UsageError(
            f"the runs in {folder} belong to a bench, and its ledger refers to them; remove the whole bench"
        )
    age = read_age(older_than or ("30d" if keep_last is None else "0h"))
    rows = []
    for row in prune(folder, age, keep_last or 0, dry_run=dry_run):
        rows.append(row)
        if not json:
            size = "" if row.bytes is None else f" ({shown_bytes(row.bytes)})"
            does = ("would remove" if dry_run else "removed") if row.removed else "kept"
            typer.echo(f"{does} {one_line(row.run)}{size}{row.reason and ': '}{readable(row.reason)}")
    freed = prune_histories(age, dry_run=dry_run)
    if json:
        echo_json(rows)
        return
    removed_rows = [row for row in rows if row.removed]
    size = shown_bytes(sum(row.bytes or 0 for row in removed_rows))
    typer.echo(
        f"{len(removed_rows):,} of {len(rows):,} old runs {'would be removed' if dry_run else 'removed'}, {size}"
    )
    if freed:
        does = "would be removed" if dry_run else "removed"
        typer.echo(f"repository histories without runs {does}, {shown_bytes(freed)}")


def shown_bytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"


def table(rows: Sequence[RunRow], width: int | None = None) -> list[str]:
    """Format runs as lines under a heading; a dash means unknown.

    If lines exceed ``width``, run ids are shortened to their last characters, and then columns are dropped; the
    request is cut. The column of parents appears only if a run has one. Parallel frames are indented below their run.
    """
    listed = {row.run for row in rows if not row.frame}
    nested = [bool(row.frame) and row.parent in listed for row in rows]
    lines = [dict(zip(_HEADINGS, _HEADINGS, strict=True)), *map(_cells, rows)]
    for line, row, is_nested in zip(lines[1:], rows, nested, strict=True):
        if is_nested:
            line.update({"run": f"  {one_line(row.frame)}", "from": "-"})
    of_others = any(row.parent and not is_nested for row, is_nested in zip(rows, nested, strict=True))
    columns = [name for name in _HEADINGS if name != "from" or of_others]
    if width is not None and _needed(lines, columns) > width:
        ends = [row.run.rsplit("-", 1)[-1] for row in rows]
        for line, end in zip(lines[1:], ends, strict=True):
            line["run"] = end if len(end) == _SHORT and ends.count(end) == 1 else line["run"]
    for name in [name for name in _SPARED if name in columns]:
        if width is None or _needed(lines, columns) <= width:
            break
        columns.remove(name)
    return align([[line[name] for name in columns] for line in lines], left=(0, 1), outcomes=1, width=width)


def _needed(lines: Sequence[dict[str, str]], columns: Sequence[str]) -> int:
    """Return the width of a line with these columns, including the first words of the request."""
    widths = [max(cell_len(line[column]) for line in lines) for column in columns if column != "request"]
    return sum(widths) + 2 * len(widths) + min(_REQUEST_CELLS, max(cell_len(line["request"]) for line in lines))


def _cells(row: RunRow) -> dict[str, str]:
    return {
        "run": one_line(row.run),
        "outcome": one_line(row.outcome),
        "steps": _number(row.steps),
        "frames": _number(row.frames),
        "tokens": _number(row.tokens),
        "cost": spell_cost(row.cost_usd, row.tokens or 0, "-"),
        "seconds": "-" if row.wall_seconds is None else f"{row.wall_seconds:,.1f}",
        "size": "-" if row.disk_bytes is None else shown_bytes(row.disk_bytes),
        "model": one_line(row.model) or "-",
        "from": one_line(row.parent) or "-",
        "request": one_line(row.request) or "-",
    }


def how_to_resume(rows: Sequence[RunRow]) -> str:
    """Return a hint on resuming, with the newest interrupted run; empty if there is none."""
    stopped = sorted(row.run for row in rows if is_resumable(row) and not row.frame)
    return f"to continue an interrupted run: stackmem resume {one_line(stopped[-1])}" if stopped else ""


def how_to_remove(rows: Sequence[RunRow]) -> str:
    """Return a hint on removing runs that never started, with the newest one; empty if there is none."""
    unbegun = sorted(row.run for row in rows if row.outcome == UNBEGUN)
    return f"to remove a run that never started: stackmem runs rm {one_line(unbegun[-1])}" if unbegun else ""


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
