"""``stackmem tasks``: list, check, build and import tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from stackmem.cli.options import JsonArray, argument, flag, option, settings, takes
from stackmem.cli.screen.text import echo_json, readable
from stackmem.errors import UsageError
from stackmem.neighbors import neighbor
from stackmem.run.tasks.build import build_rules, build_task
from stackmem.run.tasks.check import check_task
from stackmem.tasks.find import find_task, list_tasks
from stackmem.tasks.reader import read_task
from stackmem.workspace.images.bases import add_base
from stackmem.workspace.images.build import BuildFailed
from stackmem.workspace.images.room import image_store

app = typer.Typer(help="List, check, build and import tasks.", no_args_is_help=True)

_SHOWN_CHARS = 90
"""Characters shown of an instruction in a list; longer or multi-line ones end with an ellipsis."""


@app.command("list")
def list_command(
    json: JsonArray = False,
) -> None:
    """List the tasks that can be solved by name."""
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


@app.command("check", short_help="Check that tasks work.")
def check_command(
    named: list[str] | None = argument("TASK", "Tasks; by default all.", default=None),
    isolation: str | None = flag("isolation"),
) -> None:
    """Check tasks: the solution passes, doing nothing fails, and the demo passes, each of them twice."""
    wrong = 0
    for task in named or [str(folder) for folder in list_tasks(Path.cwd())]:
        for finding in check_task(task, isolation, Path.cwd()):
            wrong += not finding.right
            typer.echo(f"{'ok   ' if finding.right else 'WRONG'} {finding.task}: {finding.says}")
    sys.exit(1 if wrong else 0)


@app.command("build", short_help="Build the images that tasks run in.")
@takes("given", settings("network", "allow", "credentials", "profile"))
def build_command(
    given: Mapping[str, object],
    named: list[str] = argument("TASK", "Tasks with their own image."),
    base: list[str] | None = option("--base", "A base system: a folder or archive of a root file system.", "NAME=PATH"),
    seconds: float = option("--seconds", "Time limit of one Dockerfile step.", "SECONDS", default=600.0),
    args: list[str] | None = option("--build-arg", "A build argument.", "NAME=VALUE"),
) -> None:
    """Build the image of each task from its Dockerfile, in the sandbox; finished steps are reused.

    Base systems come from --base, once for all tasks, or from podman or docker if they work. Steps that download
    something need --network host, or --network list with --allow.
    """
    wrong = 0
    rules = build_rules(given, seconds, args or [], os.environ, Path.cwd(), typer.echo)
    for each in base or []:
        found = add_base(image_store(), each)
        known = f" (to pin it: {found.name}@{found.pins[0]})" if found.pins and "@" not in found.name else ""
        typer.echo(readable(f"base {found.name}: {found.root}{known}"))
    for name in named:
        task = read_task(_folder_of(name))
        try:
            image = build_task(task, rules)
        except BuildFailed as error:
            wrong += 1
            typer.echo(readable(f"{task.short_name}: not built: {error}"))
            continue
        result = f"image {image.digest}" if image else "no image to build; the task uses this machine's tools"
        typer.echo(readable(f"{task.short_name}: {result}"))
    sys.exit(1 if wrong else 0)


def _folder_of(name: str) -> Path:
    folder = find_task(name, Path.cwd())
    if folder is None:
        raise UsageError(f"{name} is not a task; stackmem tasks list shows all tasks")
    return folder


app.command("import", short_help="Import tasks of other benchmarks.")(neighbor("formats: import tasks"))
