"""``stackmem completion``."""

from __future__ import annotations

import typer
from typer.completion import get_completion_inspect_parameters, shell_complete

from stackmem.core.errors import UsageError

_SHELLS = ("bash", "zsh", "fish")


def command(ctx: typer.Context, shell: str = typer.Argument(..., metavar="SHELL", help="bash, zsh or fish.")) -> None:
    """Print the script that lets a shell complete commands, flags and names with Tab."""
    if shell not in _SHELLS:
        raise UsageError(f"no completion for the shell {shell[:40]!r}; choose one of {', '.join(_SHELLS)}")
    get_completion_inspect_parameters()  # registers the shells with typer
    shell_complete(ctx.find_root().command, {}, "stackmem", "_STACKMEM_COMPLETE", f"source_{shell}")
