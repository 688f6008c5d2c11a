"""``stackmem runs``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag

app = typer.Typer(help="List the runs there are.", invoke_without_command=True)


@app.callback()
def list_command(
    context: typer.Context,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="CONDITION", help="Show what fulfils it, as outcome=solved or steps>20."),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="FIELD", help="Order by this; -FIELD has the largest first.")
    ] = "-started",
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Show no more than N runs.")] = None,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """List the runs, the newest first: what each came to, and what it took."""
    if context.invoked_subcommand is not None:
        return
    from stackmem.cli.finding import runs_folder
    from stackmem.cli.screen.columns import terminal_width
    from stackmem.cli.screen.run_table import resumable, table
    from stackmem.kept.run_choice import chosen
    from stackmem.kept.run_list import list_runs

    folder = runs_folder(runs_dir)
    rows = chosen(list_runs(folder), filters or (), sort, limit)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(rows).decode())
        return
    typer.echo("\n".join(table(rows, terminal_width())) if rows else f"{folder} holds no such runs")
    if told := resumable(rows):
        typer.echo(told, err=True)
