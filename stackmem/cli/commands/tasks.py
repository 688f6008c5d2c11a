"""``stackmem tasks``: list the tasks there are, check them, and import those of other benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from stackmem.cli.options import JsonArray, argument, flag, option
from stackmem.cli.screen.text import echo_json, readable
from stackmem.formats.tasks import ImportedTask, import_tasks
from stackmem.run.task_check import check_task
from stackmem.tasks.find import list_tasks
from stackmem.tasks.reader import read_task

app = typer.Typer(
    help="Show the tasks there are, check them, and import tasks of other benchmarks.", no_args_is_help=True
)

_SHOWN_CHARS = 90
"""Of a task's instruction in a list; a longer one, and one of several lines, ends with an ellipsis."""


@app.command("list")
def list_command(
    json: JsonArray = False,
) -> None:
    """List the tasks that a bare name reaches."""
    tasks = [read_task(folder) for folder in list_tasks(Path.cwd())]
    if json:
        rows = [{"name": task.short_name, "folder": str(task.folder), "demo": task.demo is not None} for task in tasks]
        echo_json(rows)
        return
    for task in tasks:
        first, _, more = task.instruction.strip().partition("\n")
        first = first.lstrip("# ")
        shown = f"{first[:_SHOWN_CHARS].rstrip()} …" if more or len(first) > _SHOWN_CHARS else first
        typer.echo(readable(f"{task.short_name:<20} {shown}"))


@app.command("check", short_help="Check that tasks are sound.")
def check_command(
    named: list[str] | None = argument("TASK", "Tasks; all where none is named.", default=None),
    isolation: str | None = flag("isolation"),
) -> None:
    """Check that a task's solution passes, that doing nothing fails, and that its demo passes; each of them twice."""
    wrong = 0
    for task in named or [str(folder) for folder in list_tasks(Path.cwd())]:
        for finding in check_task(task, isolation, Path.cwd()):
            wrong += not finding.right
            typer.echo(f"{'ok   ' if finding.right else 'WRONG'} {finding.task}: {finding.says}")
    sys.exit(1 if wrong else 0)


@app.command("import", short_help="Make tasks of another benchmark's.")
def import_command(
    kind: str = argument("KIND", "exercism, harbor or swebench."),
    path: Path = argument("PATH", "An exercise or a task, a folder of them, or a file of records."),
    out: Path = option("-o --output", "Where the tasks go.", "DIR", default=Path("tasks")),
    repo: Path | None = option("--repo", "swebench: a local clone of the repository.", "CLONE"),
    json: JsonArray = False,
) -> None:
    """Make task folders of another benchmark's tasks; exits with 1 where one of them cannot be had."""
    rows = []
    refused = 0
    for task in import_tasks(kind, path, out, repo):
        if isinstance(task, ImportedTask):
            rows.append({"name": task.name, "folder": str(task.folder), "notes": task.notes, "refused": ""})
            lines = [f"{task.name}: {task.folder}", *(f"  note: {note}" for note in task.notes)]
        else:
            refused += 1
            rows.append({"name": task.name, "folder": "", "notes": (), "refused": task.why})
            lines = [f"{task.name}: not imported: {task.why}"]
        if not json:
            typer.echo(readable("\n".join(lines)))
    if json:
        echo_json(rows)
    sys.exit(1 if refused else 0)
