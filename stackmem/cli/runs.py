"""``stackmem runs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import flag

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(help="List the runs there are.", invoke_without_command=True)


@app.callback()
def list_command(
    context: typer.Context,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """List the runs, the newest first: what each came to, and what it took."""
    if context.invoked_subcommand is not None:
        return
    from stackmem.harness.run_list import list_runs

    from .run_table import table

    rows = list_runs(_folder(runs_dir))[::-1]
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(rows).decode())
        return
    typer.echo("\n".join(table(rows)))


def _folder(runs_dir: str | None) -> Path:
    import os
    from pathlib import Path

    from stackmem.harness.directories import runs_dir as find_runs_dir
    from stackmem.harness.settings import resolve
    from stackmem.harness.settings_files import user_path

    settings = resolve({"runs_dir": runs_dir}, os.environ, Path.cwd(), user_path(os.environ), {}).settings
    return find_runs_dir(settings, Path.cwd(), os.environ)
