"""``stackmem tasks``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stackmem.cli.options import flag

app = typer.Typer(
    help="Show the tasks there are, check them, and import tasks of other benchmarks.", no_args_is_help=True
)


@app.command("list")
def list_command(
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """List the tasks that a bare name reaches."""
    from pathlib import Path

    from stackmem.tasks.find import list_tasks
    from stackmem.tasks.reader import read_task

    found = [read_task(folder) for folder in list_tasks(Path.cwd())]
    if json:
        import msgspec

        rows = [{"name": task.short_name, "folder": str(task.folder), "demo": task.demo is not None} for task in found]
        typer.echo(msgspec.json.encode(rows).decode())
        return
    for task in found:
        first = task.instruction.splitlines()[0].lstrip("# ")
        typer.echo(f"{task.short_name:<20} {first[:90]}")


@app.command("check", short_help="Check that tasks are sound.")
def check_command(
    named: Annotated[list[str] | None, typer.Argument(metavar="TASK", help="Tasks; all where none is named.")] = None,
    isolation: str | None = flag("isolation"),
) -> None:
    """Check that a task's solution passes, that doing nothing fails, and that its demo passes; each of them twice."""
    from pathlib import Path

    from stackmem.run.task_check import check_task
    from stackmem.tasks.find import list_tasks

    wrong = 0
    for task in named or [str(folder) for folder in list_tasks(Path.cwd())]:
        for finding in check_task(task, isolation, Path.cwd()):
            wrong += not finding.right
            typer.echo(f"{'ok   ' if finding.right else 'WRONG'} {finding.task}: {finding.says}")
    sys.exit(1 if wrong else 0)
