"""``stackmem tasks import``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="exercism, harbor or swebench.")],
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="An exercise or a task, a folder of them, or a file of records.")
    ],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the tasks go.")] = Path("tasks"),
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="CLONE", help="swebench: a local clone of the repository.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """Make task folders of another benchmark's tasks; exits with 1 where one of them cannot be had."""
    from stackmem.cli.screen.solving import readable
    from stackmem.formats.tasks import Imported, import_tasks

    rows = []
    refused = 0
    for found in import_tasks(kind, path, out, repo):
        if isinstance(found, Imported):
            rows.append({"name": found.name, "folder": str(found.folder), "notes": found.notes, "refused": ""})
            told = [f"{found.name}: {found.folder}", *(f"  note: {note}" for note in found.notes)]
        else:
            refused += 1
            rows.append({"name": found.name, "folder": "", "notes": (), "refused": found.why})
            told = [f"{found.name}: not imported: {found.why}"]
        if not json:
            typer.echo(readable("\n".join(told)))
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(rows).decode())
    sys.exit(1 if refused else 0)
