"""``stackmem trust``."""

from __future__ import annotations

import os
import sys

import typer

from stackmem.cli.options import absolute, argument, switch
from stackmem.cli.screen.text import readable
from stackmem.errors import UsageError
from stackmem.settings.mcp_servers import SERVERS_FILE, read_servers, trust


def command(
    folder: str = argument("DIR", "A folder with a stackmem.mcp.toml."),
    remove: bool = switch("--remove", "Trust it no more."),
    yes: bool = switch("--yes", "Do not ask."),
) -> None:
    """Let the servers that a folder names run on this machine, as they are written there now."""
    place = absolute(folder)
    if remove:
        trust(place, os.environ, trusted=False)
        typer.echo(f"{readable(str(place))} is trusted no more")
        return
    if not (place / SERVERS_FILE).is_file():
        raise UsageError(f"{place} has no {SERVERS_FILE}; there is nothing to trust")
    for name, server in read_servers(place / SERVERS_FILE).items():
        typer.echo(readable(f"{name}: {server.url or ' '.join(server.command)}"))
    if not yes and not (sys.stdin.isatty() and typer.confirm("Let these run on this machine?", err=True)):
        raise UsageError("nothing was trusted; say --yes once you have read what would run")
    trust(place, os.environ)
    typer.echo(f"{readable(str(place))} is trusted with these servers, until that file changes")
