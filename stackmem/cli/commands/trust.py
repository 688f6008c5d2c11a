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
from stackmem.core.errors import UsageError
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
    path = absolute(folder)
    if remove:
        distrust(path, os.environ)
        for name in (PROGRAMS_FOLDER, *COMMAND_FOLDERS):
            distrust(path / name, os.environ)
        distrust(path.resolve() / PERMISSIONS_FILE, os.environ)
        distrust(path.resolve() / HOOKS_FILE, os.environ)
        typer.echo(f"{escape(str(path))} is no longer trusted")
        return
    servers = read_folder(path) if (path / SERVERS_FILE).is_file() else None
    programs = read_programs(path)
    hooks, hooked = project_hooks(path) if (path / HOOKS_FILE).is_file() else ((), None)
    rules, ruled = project_rules(path, None) if (path / PERMISSIONS_FILE).is_file() else ((), None)
    brings = {"servers": servers, "programs": programs, "permission rules": ruled, "hooks": hooked}
    brings |= {f"commands in {name}": read_commands(path, name) for name in COMMAND_FOLDERS}
    trusted = {name: value for name, value in brings.items() if value is not None}
    if not trusted:
        raise UsageError(
            f"{path} has no {SERVERS_FILE}, {PERMISSIONS_FILE}, {HOOKS_FILE}, {PROGRAMS_FOLDER} or "
            f"{' or '.join(COMMAND_FOLDERS)}; there is nothing to trust"
        )
    for line in (*map(spelled, rules), *map(spelled_hook, hooks)):
        typer.echo(escape(line))
    for files in trusted.values():
        for line in _lines(files):
            typer.echo(line)
    names = " and ".join(trusted)
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Allow these {names} on this machine?", err=True)):
        raise UsageError(f"not trusted; read the {names} above, then pass --yes")
    for files in trusted.values():
        trust(files, os.environ)
    typer.echo(f"{escape(str(path.resolve()))} is trusted with these {names} until one of these files changes")


def _lines(content: FolderServers) -> Iterator[str]:
    """Yield everything that the servers file sets, and the folder's files that it names; controls are escaped."""
    for name, server in content.servers.items():
        yield f"[{escape(name)}]"
        for field in structs.fields(server):
            value = getattr(server, field.name)
            if value and value != field.default:
                yield f"{field.name} = {escape(json.dumps(value, ensure_ascii=False))}"
    for file in content.files:
        yield escape(f"{json.dumps(file.path, ensure_ascii=False)} in this folder: {file.content}")
