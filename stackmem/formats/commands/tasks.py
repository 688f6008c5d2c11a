"""``stackmem tasks``: list, check, build and import tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from stackmem.cli.options import JsonArray, argument, flag, option, settings, switch, takes
from stackmem.cli.screen.text import echo_json, readable
from stackmem.core.errors import UsageError
from stackmem.formats.images.bases import add_base
from stackmem.formats.images.build import BuildFailed
from stackmem.formats.images.store import image_store
from stackmem.formats.tasks import import_tasks
from stackmem.formats.tasks.build import build_rules, build_task
from stackmem.formats.tasks.check import check_task
from stackmem.formats.tasks.imports import ImportVerdict, import_exit_code, import_summary, verdict_of
from stackmem.run.tasks.find import find_task, list_tasks
from stackmem.run.tasks.reader import read_task

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
        summary = f"{first[:_SHOWN_CHARS].rstrip()} …" if more or len(first) > _SHOWN_CHARS else first
        typer.echo(readable(f"{task.short_name:<20} {summary}"))


@app.command("check", short_help="Check that tasks work.")
def check_command(
    names: list[str] | None = argument("TASK", "Tasks; by default all.", default=None),
    isolation: str | None = flag("isolation"),
) -> None:
    """Check tasks: the solution passes, doing nothing fails, and the demo passes, each of them twice."""
    wrong = 0
    for task in names or [str(folder) for folder in list_tasks(Path.cwd())]:
        for finding in check_task(task, isolation, Path.cwd()):
            wrong += not finding.right
            typer.echo(f"{'ok   ' if finding.right else 'WRONG'} {finding.task}: {finding.says}")
    sys.exit(1 if wrong else 0)


@app.command("build", short_help="Build the images that tasks run in.")
@takes("flags", settings("network", "allow", "credentials", "profile"))
def build_command(
    flags: Mapping[str, object],
    names: list[str] = argument("TASK", "Tasks with their own image."),
    base: list[str] | None = option("--base", "A base system: a folder or archive of a root file system.", "NAME=PATH"),
    seconds: float = option("--seconds", "Time limit of one Dockerfile step.", "SECONDS", default=600.0),
    args: list[str] | None = option("--build-arg", "A build argument.", "NAME=VALUE"),
) -> None:
    """Build the image of each task from its Dockerfile, in the sandbox; finished steps are reused.

    Base systems come from --base, once for all tasks, or from podman or docker if they work. Steps that download
    something need --network host, or --network list with --allow.
    """
    wrong = 0
    rules = build_rules(flags, seconds, args or [], os.environ, Path.cwd(), typer.echo)
    for each in base or []:
        system = add_base(image_store(), each)
        pin_note = f" (to pin it: {system.name}@{system.pins[0]})" if system.pins and "@" not in system.name else ""
        typer.echo(readable(f"base {system.name}: {system.root}{pin_note}"))
    for name in names:
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


@app.command("import", short_help="Import tasks of other benchmarks.")
def import_command(
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
