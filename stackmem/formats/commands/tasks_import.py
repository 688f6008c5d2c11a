"""``stackmem tasks import``."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from stackmem.cli.options import JsonArray, argument, option, switch
from stackmem.cli.screen.text import echo_json, readable
from stackmem.formats.tasks import import_tasks
from stackmem.formats.tasks.imports import ImportVerdict, import_exit_code, import_summary, verdict_of


def command(
    kind: str = argument("KIND", "exercism, harbor or swebench."),
    path: Path = argument("PATH", "An exercise or a task, a folder of them, or a file of records."),
    out: Path = option("-o --output", "The folder for the tasks.", "DIR", default=Path("tasks")),
    repo: Path | None = option("--repo", "swebench: a local clone of the repository.", "CLONE"),
    host: bool = switch("--host", "harbor: use this machine's tools instead of the task's own image."),
    no_check: bool = switch("--no-check", "Do not run the checks on the initial workspace."),
    json: JsonArray = False,
) -> None:
    """Import tasks of another benchmark as task folders.

    Exits with 3 if none of the imported tasks can run here, and with 1 if any task was refused.
    """
    verdicts = []
    for task in import_tasks(kind, path, out, repo, hosted=host):
        verdict = verdict_of(task, checked=not no_check)
        verdicts.append(verdict)
        if json:
            continue
        lines = [f"{verdict.name}: {verdict.folder}", *(f"  note: {note}" for note in verdict.notes)]
        lines += [f"  cannot run yet: {reason}" for reason in verdict.lacks]
        refused = f"{verdict.name}: not imported: {'; '.join(verdict.lacks)}"
        typer.echo(readable("\n".join(lines) if verdict.folder else refused))
    if json:
        echo_json([_row(each) for each in verdicts])
    else:
        typer.echo(readable("\n".join(import_summary(verdicts))))
    sys.exit(import_exit_code(verdicts))


def _row(verdict: ImportVerdict) -> dict[str, object]:
    return {
        "name": verdict.name,
        "folder": verdict.folder,
        "notes": verdict.notes,
        "refused": "" if verdict.folder else verdict.lacks[0],
        "lacks": verdict.lacks if verdict.folder else (),
        "stub_passes": verdict.passes,
    }
