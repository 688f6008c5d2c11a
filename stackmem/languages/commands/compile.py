"""The ``stackmem compile`` command."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from stackmem.cli.options import Flags, argument, settings, takes
from stackmem.cli.screen.text import readable
from stackmem.languages.running.run import compile_program


@takes("flags", settings("model", "runs_dir", "sandbox_dir", "max_steps", "max_usd"))
def command(program: str = argument("FILE", "A playbook program."), *, flags: Flags) -> None:
    """Turn a playbook program of plain sentences into coded steps, once for each text."""
    made = compile_program(program, flags, os.environ, Path.cwd())
    if made.written is None:
        typer.echo(f"{readable(program)} has coded steps already")
    else:
        cost = f"model replies: {made.replies}" if made.replies else "no model was asked: the text is the same"
        typer.echo(readable(f"{made.written} ({cost}; compiled: {'; '.join(made.parts)})"))
