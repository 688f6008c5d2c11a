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
    """Compile a playbook of plain sentences into coded steps, unless its text was compiled before."""
    compilation = compile_program(program, flags, os.environ, Path.cwd())
    if compilation.written is None:
        typer.echo(f"{readable(program)} already has coded steps")
    else:
        cost = (
            f"model replies: {compilation.replies}"
            if compilation.replies
            else "no model request: the text has not changed"
        )
        typer.echo(readable(f"{compilation.written} ({cost}; compiled: {'; '.join(compilation.parts)})"))
