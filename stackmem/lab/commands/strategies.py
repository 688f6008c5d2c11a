"""``stackmem strategies``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from inspect import getdoc

import typer

from stackmem.cli.options import argument
from stackmem.core.errors import UsageError
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.tools import tool_name
from stackmem.memory import STRATEGIES, Rival, open_strategy
from stackmem.run.plugins.loading import load_plugins


def command(
    name: str | None = argument("NAME", "Show everything about this strategy.", default=None),
) -> None:
    """List the memory strategies, or describe one: what it shows the model, its parameters and tools."""
    load_plugins()
    if name is not None:
        base = name.partition(":")[0]
        if base not in STRATEGIES:
            open_strategy(name)  # raises an error that lists the known names
        doc = _doc(STRATEGIES[base]) or base
        typer.echo(f"{doc.replace('``', '`')}\n\ntools: {_tools(name)}")
        return
    rows = [_row(strategy, _doc(make)) for strategy, make in sorted(STRATEGIES.items())]
    width = max(len(spelled) for spelled, _ in rows)
    for spelled, says in rows:
        typer.echo(f"{spelled:<{width}}  {says}")
    typer.echo("\nstackmem strategies NAME describes one strategy in full")


def _doc(make: Callable[[str], MemoryStrategy]) -> str:
    """Return the docstring of a strategy's maker, or that of its module."""
    if isinstance(make, Rival):
        make = make.factory()
    return getdoc(make) or (sys.modules[make.__module__].__doc__ or "").strip()


def _row(name: str, doc: str) -> tuple[str, str]:
    """Return a strategy's spelling and summary from a text that may begin with ``NAME:PARAMETERS`` in backquotes."""
    first = " ".join(doc.partition("\n\n")[0].split())
    marked = re.match(r"``([^`]*)``: ", first)
    says = first[marked.end() :] if marked else first
    return marked[1] if marked else name, says.replace("``", "`")


def _tools(name: str) -> str:
    try:
        return ", ".join(tool_name(tool) for tool in open_strategy(name).tools)
    except UsageError as error:
        return f"depend on its parameters ({error})"
