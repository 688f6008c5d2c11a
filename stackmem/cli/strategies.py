"""``stackmem strategies``."""

from __future__ import annotations

import typer


def command() -> None:
    """List the memory strategies, what each shows the model, and its parameters."""
    import sys

    from stackmem.core.calls import tool_name
    from stackmem.errors import UsageError
    from stackmem.harness.plugins import load_plugins
    from stackmem.memory import STRATEGIES

    for warning in load_plugins():
        typer.echo(warning, err=True)

    for name, make in sorted(STRATEGIES.items()):
        module = sys.modules[make.__module__]
        try:
            tools = ", ".join(tool_name(tool) for tool in make("").tools)
        except UsageError as error:
            tools = f"known when its parameters are ({error})"
        typer.echo(f"{(module.__doc__ or name).strip()}\n\ntools: {tools}\n")
