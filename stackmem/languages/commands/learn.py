"""``stackmem learn``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from stackmem.cli.options import Flags, argument, runs_folder, settings, switch, takes
from stackmem.cli.screen.text import readable
from stackmem.core.errors import UsageError
from stackmem.languages.running.learned import keep_program, proposed
from stackmem.run.companion.find import find_run
from stackmem.run.companion.learning import proposals
from stackmem.run.stored_request import read_request


@takes("flags", settings("runs_dir"))
def command(
    run: str = argument("RUN", "A run whose agent wrote down a procedure, such as last."),
    name: str | None = argument("[NAME]", "The program to keep. Without it, the proposals are listed.", default=None),
    replace: bool = switch("--replace", "Replace a program of the same name."),
    yes: bool = switch("--yes", "Do not ask for confirmation."),
    *,
    flags: Flags,
) -> None:
    """Show the programs that an agent proposes, and keep one for later runs on the same folder."""
    run_dir = find_run(run, runs_folder(flags.get("runs_dir")))
    if name is None:
        names = proposals(run_dir)
        for each in names:
            typer.echo(readable(each))
        if not names:
            typer.echo(f"{run_dir.name} proposes no programs; --learn on lets an agent propose some", err=True)
        return
    typer.echo(readable(proposed(run_dir, name)).rstrip())
    folder = Path(read_request(run_dir).subject)
    if not folder.is_dir():
        raise UsageError(f"the folder {folder} of the run does not exist; restore it")
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Keep it for later runs on {folder}?", err=True)):
        raise UsageError("not kept; read the program above, then pass --yes")
    target = keep_program(run_dir, name, folder, os.environ, replace=replace)
    typer.echo(readable(f"kept {target}; later runs on this folder can call it"), err=True)
