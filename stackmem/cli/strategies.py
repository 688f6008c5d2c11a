"""``stackmem strategies``."""

from __future__ import annotations

import typer


def command() -> None:
    """List the memory strategies, what each shows the model, and its parameters."""
    import sys

    from stackmem.core.calls import tool_name
    from stackmem.memory import STRATEGIES

    for name, make in sorted(STRATEGIES.items()):
        module = sys.modules[make.__module__]
        tools = ", ".join(tool_name(tool) for tool in make("").tools)
        typer.echo(f"{(module.__doc__ or name).strip()}\n\ntools: {tools}\n")
