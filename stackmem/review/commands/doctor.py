"""``stackmem doctor``."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from stackmem.cli.catalog import IN_CONTAINER
from stackmem.cli.container import WITHOUT_SANDBOX
from stackmem.cli.options import Flags, Json, settings, takes
from stackmem.cli.screen.text import echo_json, readable
from stackmem.core.errors import UsageError
from stackmem.providers.running_servers import running_servers
from stackmem.review.doctor.examination import Examined, examine, examine_model
from stackmem.review.doctor.lines import model_lines, server_lines
from stackmem.workspace.project.project import Project


@takes(
    "flags", settings("profile", "include", "git", "runs_dir", "sandbox_dir", "base_url", "window_tokens", "headers")
)
def command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Also examine this folder: its environment, tests and missing parts."),
    ] = None,
    *,
    flags: Flags,
    model: Annotated[
        str | None, typer.Option("--model", help="Probe the server of this model and exit: openai/NAME, llamacpp/NAME.")
    ] = None,
    json: Json = False,
) -> None:
    """Show which sandboxes work here and what they guarantee, or what a model server can do (--model)."""
    if model is not None:
        _probe(model, flags, as_json=json)
    if sys.platform != "linux":
        raise UsageError(
            f"the sandbox needs Linux; doctor --model NAME works here, and so do {WITHOUT_SANDBOX}. For the others use "
            f"stackmem {IN_CONTAINER} COMMAND, or WSL 2 on Windows"
        )
    report = examine(flags, folder)
    if json:
        echo_json(report)
    else:
        typer.echo(f"active: {report.active or 'none; stackmem runs no commands without --isolation'}")
        typer.echo(f"workspaces: {report.sandbox_dir}\nruns:       {report.runs_dir}")
        typer.echo(f"layers:     {_way(report)}")
        for models, reason in report.models.items():
            typer.echo(f"{f'{models}NAME:':<19}{readable(reason) or 'ready'}")
        for line in server_lines(running_servers()):
            typer.echo(line)
        for level in report.levels:
            typer.echo(
                f"\n{level.level} (--isolation {level.isolation}): {'works' if level.available else 'does not work'}"
            )
            _say("probe", level.probe)
            _say("error", level.failure)
            _say("guarantees", level.guarantees)
            _say("leaks", level.leaks)
            if level.available:
                _say(
                    "hosts",
                    level.listed or "commands can be limited to listed hosts (--network list --allow HOST:PORT)",
                )
            _say("fix", level.remedy)
        if report.project is not None:
            typer.echo(f"\n{readable(str(folder))}")
            for label, text in _rows(report.project):
                _say(label, text)
            _say("git", readable(report.git))
            _say("agents", readable(report.instructions.partition("\n")[0]))
        for warning in report.warnings:
            typer.echo(f"\nwarning: {warning}")
    sys.exit(0 if report.active else 5)


def _probe(name: str, flags: Flags, *, as_json: bool) -> NoReturn:
    """Probe a model; exit 0 if a run would get tool calls from it, else 1."""
    # Without this line, a slow machine looks as if the command hangs.
    typer.echo(f"asking {readable(name)} to answer some test prompts; a slow machine needs minutes", err=True)
    report = examine_model(name, flags)
    if as_json:
        echo_json(report)
    else:
        typer.echo("\n".join(model_lines(report)))
    sys.exit(0 if report.use else 1)


def _way(report: Examined) -> str:
    """Describe how runs access a folder on this machine."""
    if not report.no_layer:
        return "work: a run uses an overlay on your folder and stores its changes separately"
    shared = ", which shares disk blocks with your files until one side changes" if report.shares_blocks else ""
    return f"do not work: {readable(report.no_layer)}; a run works on a copy{shared}"


def _rows(project: Project) -> Iterator[tuple[str, str]]:
    version = f" ({project.version})" if project.version else ""
    python = f"{project.environment}/bin/python{version}" if project.environment else "stackmem's own, with pytest"
    yield "python", python
    yield "path", ", ".join(project.programs)
    yield "read-only", ", ".join(project.installations)
    for suite in project.suites:
        yield "tests", f"{suite.command} (found in {suite.reason}; --check auto uses the first)"
    yield "locks", ", ".join(project.locks)
    for sentence in project.missing:
        yield "missing", readable(sentence)


def _say(label: str, text: str) -> None:
    """Print a row, wrapped to the width of a terminal; otherwise on one line, so that it can be searched."""
    if not text:
        return
    row = f"  {f'{label}:':<12}{text}"
    if sys.stdout.isatty():
        row = textwrap.fill(row, shutil.get_terminal_size().columns, subsequent_indent=" " * 14)
    typer.echo(row)
