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
from stackmem.core.conversation.hooks import spelled as spelled_hook
from stackmem.core.conversation.permissions import spelled
from stackmem.errors import UsageError
from stackmem.settings.hook_files import HOOKS_FILE, project_hooks
from stackmem.settings.mcp_servers import SERVERS_FILE, FolderServers, distrust, read_folder, trust
from stackmem.settings.permission_rules import PERMISSIONS_FILE, project_rules
from stackmem.settings.program_trust import COMMAND_FOLDERS, PROGRAMS_FOLDER, read_commands, read_programs


def command(
    folder: str = argument(
        "DIR", "A folder with stackmem.mcp.toml, .permissions.toml, .hooks.toml, programs or commands."
    ),
    remove: bool = switch("--remove", "Stop trusting the folder."),
    yes: bool = switch("--yes", "Do not ask for confirmation."),
) -> None:
    """Allow what a folder brings, such as servers, programs, hooks and commands, until its files change."""
    place = absolute(folder)
    if remove:
        distrust(place, os.environ)
        for name in (PROGRAMS_FOLDER, *COMMAND_FOLDERS):
            distrust(place / name, os.environ)
        distrust(place.resolve() / PERMISSIONS_FILE, os.environ)
        distrust(place.resolve() / HOOKS_FILE, os.environ)
        typer.echo(f"{escape(str(place))} is no longer trusted")
        return
    servers = read_folder(place) if (place / SERVERS_FILE).is_file() else None
    programs = read_programs(place)
    hooks, hooked = project_hooks(place) if (place / HOOKS_FILE).is_file() else ((), None)
    rules, ruled = project_rules(place, None) if (place / PERMISSIONS_FILE).is_file() else ((), None)
    brings = {"servers": servers, "programs": programs, "permission rules": ruled, "hooks": hooked}
    brings |= {f"commands in {name}": read_commands(place, name) for name in COMMAND_FOLDERS}
    trusted = {name: found for name, found in brings.items() if found is not None}
    if not trusted:
        raise UsageError(
            f"{place} has no {SERVERS_FILE}, {PERMISSIONS_FILE}, {HOOKS_FILE}, {PROGRAMS_FOLDER} or "
            f"{' or '.join(COMMAND_FOLDERS)}; there is nothing to trust"
        )
    for line in (*map(spelled, rules), *map(spelled_hook, hooks)):
        typer.echo(escape(line))
    for found in trusted.values():
        for line in _shown(found):
            typer.echo(line)
    what = " and ".join(trusted)
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Allow these {what} on this machine?", err=True)):
        raise UsageError(f"not trusted; read the {what} above, then pass --yes")
    for found in trusted.values():
        trust(found, os.environ)
    typer.echo(f"{escape(str(place.resolve()))} is trusted with these {what} until one of these files changes")


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
