"""The ``stackmem package`` command."""

from __future__ import annotations

from pathlib import Path

import typer

from stackmem.cli.options import argument, option
from stackmem.cli.screen.text import readable
from stackmem.languages.running.packaging import FORMS, package


def command(
    program: str = argument("FILE|DIR", "A program, or a folder with a main program and its other files."),
    form: str = option("--as", f"One of {', '.join(FORMS)}.", "FORM", default="skill"),
    to: Path | None = option("-o --output", "The new folder. Default: the program's name.", "DIR"),
) -> None:
    """Package a program as an agent skill, a GitHub Action, or a tool of an MCP server."""
    typer.echo(readable(str(package(program, form, to, Path.cwd()))))
