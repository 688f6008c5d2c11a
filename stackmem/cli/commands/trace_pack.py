"""``stackmem trace pack``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: RUN.zip, here.")
    ] = None,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Write a run with its parents' records and all its files as one archive, which needs nothing beside it."""
    from pathlib import Path

    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen.solving import readable, say
    from stackmem.trace.pack import pack

    folder = run_folder(run, runs_dir)
    out = Path(os.path.expanduser(output)) if output is not None else Path.cwd() / f"{folder.resolve().name}.zip"  # noqa: PTH111 - a name like ~nobody is no error here
    packed = pack(folder, out)
    if packed.missing:
        say(f"the history lacks {packed.missing:,} files or folders, as after a power cut; they are not in the archive")
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(packed).decode())
        return
    parents = f", {len(packed.parents)} parents' among them" if packed.parents else ""
    typer.echo(
        f"{readable(packed.file)}: {packed.records:,} records{parents}, {packed.objects:,} objects of its history, "
        f"{packed.bytes / (1 << 20):,.1f} MiB"
    )
