"""``stackmem trust``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import typer
from msgspec import structs

from stackmem.cli.options import absolute, argument, switch
from stackmem.cli.screen.text import escape
from stackmem.errors import UsageError
from stackmem.settings.mcp_servers import SERVERS_FILE, FolderServers, distrust, read_folder, trust


def command(
    folder: str = argument("DIR", "A folder with a stackmem.mcp.toml file."),
    remove: bool = switch("--remove", "Stop trusting the folder."),
    yes: bool = switch("--yes", "Do not ask for confirmation."),
) -> None:
    """Allow the servers that a folder defines to run on this machine, until their definition changes."""
    place = absolute(folder)
    if remove:
        distrust(place, os.environ)
        typer.echo(f"{escape(str(place))} is no longer trusted")
        return
    if not (place / SERVERS_FILE).is_file():
        raise UsageError(f"{place} has no {SERVERS_FILE}; there are no servers to trust")
    found = read_folder(place)
    for line in _shown(found):
        typer.echo(line)
    if not yes and not (sys.stdin.isatty() and typer.confirm("Allow these servers to run on this machine?", err=True)):
        raise UsageError("not trusted; read the servers above, then pass --yes")
    trust(found, os.environ)
    typer.echo(f"{escape(str(found.folder))} is trusted with these servers until one of these files changes")


def _shown(found: FolderServers) -> Iterator[str]:
    """Yield everything that the servers file sets, and the folder's files that it names; controls are escaped."""
    for name, server in found.servers.items():
        yield f"[{escape(name)}]"
        for field in structs.fields(server):
            value = getattr(server, field.name)
            if value and value != field.default:
                yield f"{field.name} = {escape(json.dumps(value, ensure_ascii=False))}"
    for file in found.files:
        yield escape(f"{json.dumps(file.path, ensure_ascii=False)} in this folder: {file.content}")
