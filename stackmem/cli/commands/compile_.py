"""``stackmem compile``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    program: Annotated[str, typer.Argument(metavar="FILE", help="A playbook program.")],
    model: str | None = flag("model"),
    runs_dir: str | None = flag("runs_dir"),
    sandbox_dir: str | None = flag("sandbox_dir"),
    max_steps: str | None = flag("max_steps"),
    max_usd: str | None = flag("max_usd"),
) -> None:
    """Turn a playbook program of plain sentences into coded steps, once for each text."""
    flags = {name: value for name, value in locals().items() if name != "program"}
    import os
    from pathlib import Path

    from stackmem.cli.screen.solving import readable
    from stackmem.run.programs.compile import compile_program

    made = compile_program(program, flags, os.environ, Path.cwd())
    if made.written is None:
        typer.echo(f"{readable(program)} has coded steps already")
    else:
        asked = f"model replies: {made.replies}" if made.replies else "no model was asked: the text is the same"
        typer.echo(f"{readable(str(made.written))} ({asked})")
