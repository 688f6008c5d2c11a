"""``stackmem doctor``."""

from __future__ import annotations

import shutil
import sys
import textwrap

import typer

from stackmem.cli.options import Flags, Json, settings, takes
from stackmem.cli.screen.text import echo_json
from stackmem.run.doctor import examine


@takes("flags", settings("profile", "runs_dir", "sandbox_dir"))
def command(
    flags: Flags,
    json: Json = False,
) -> None:
    """Say which isolation is active and by which probe, what each level guarantees, and how to get a better one."""
    report = examine(flags)
    if json:
        echo_json(report)
    else:
        typer.echo(f"active: {report.active or 'none; commands are not run without --isolation'}")
        typer.echo(f"workspaces: {report.sandbox_dir}\nruns:       {report.runs_dir}")
        for level in report.levels:
            typer.echo(
                f"\n{level.level} (--isolation {level.isolation}): {'works' if level.available else 'does not work'}"
            )
            _say("probe", level.probe)
            _say("it said", level.failure)
            _say("guarantees", level.guarantees)
            _say("leaks", level.leaks)
            _say("to get it", level.remedy)
        for warning in report.warnings:
            typer.echo(f"\nwarning: {warning}")
    sys.exit(0 if report.active else 5)


def _say(label: str, text: str) -> None:
    """A row, on a terminal in lines of its width; elsewhere on one, as searches like it."""
    if not text:
        return
    row = f"  {f'{label}:':<12}{text}"
    if sys.stdout.isatty():
        row = textwrap.fill(row, shutil.get_terminal_size().columns, subsequent_indent=" " * 14)
    typer.echo(row)
