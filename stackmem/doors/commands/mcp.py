"""``stackmem mcp``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from stackmem.cli.options import Flags, absolute, argument, option, settings, takes
from stackmem.cli.screen.text import readable, say
from stackmem.core.errors import UsageError
from stackmem.core.text import quantity
from stackmem.doors.listening.token import token_of
from stackmem.doors.mcp.client_run import plan_client_run
from stackmem.doors.mcp.programs import ProgramService, serve_programs
from stackmem.doors.mcp.server import TOKEN_VARIABLE, serve_memory
from stackmem.languages.running.catalog import catalog


@takes("flags", settings(
    "runs_dir", "heap", "heap_chars", "heap_chunks", "depth", "fsync", "model", "max_usd", "sandbox_dir", "apply",
))  # fmt: skip
def command(
    folder: str = argument("FOLDER", "The folder that the agent works in; by default the current one.", default="."),
    *,
    flags: Flags,
    http: int | None = option("--http", "Serve over HTTP at this port on this machine; 0 for any free port.", "PORT"),
    programs: str | None = option("--programs", "Serve the programs of this folder as tools instead.", "DIR"),
) -> None:
    """Give any agent a heap and frames, as a Model Context Protocol server that is recorded as a run."""
    if programs is not None:
        if http is not None:
            raise UsageError("--programs works over stdin and stdout only; leave out --http")
        _serve_programs(programs, folder, flags)
        return
    unused = next((name for name in _OF_PROGRAMS if flags.get(name) is not None), None)
    if unused is not None:
        raise UsageError(f"--{unused.replace('_', '-')} is for --programs DIR; add it, or leave out the flag")
    plan = plan_client_run(folder, flags, os.environ, Path.cwd())
    token_text = os.environ.get(TOKEN_VARIABLE, "")
    token = token_of(token_text if http is not None else "", TOKEN_VARIABLE)

    def ready(address: str) -> None:
        typer.echo(address)
        sys.stdout.flush()
        shown_token = f"the token of {TOKEN_VARIABLE}" if token_text else token
        say(f"clients must send the header Authorization: Bearer {shown_token}; Ctrl-C stops the server")

    def warn(message: str) -> None:
        say(readable(message))

    result = serve_memory(plan, os.environ, None if http is None else (http, token), ready, warn)
    if result is not None:
        counts = f"{quantity(result.steps, 'call')}, {quantity(len(result.chunks), 'chunk')}"
        say(readable(f"{result.run}: {counts}; stackmem view shows it"))


_OF_PROGRAMS = ("model", "max_usd", "sandbox_dir", "apply")


def _serve_programs(programs: str, folder: str, flags: Flags) -> None:
    workspace = absolute(folder)
    if not workspace.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder that the programs work in")
    arguments = []
    for name in ("runs_dir", "fsync", *_OF_PROGRAMS):
        value = flags.get(name)
        flag = f"--{name.replace('_', '-')}"
        if value is True or (name == "apply" and value):
            arguments.append(flag)
        elif value is not None and value is not False:
            arguments += [flag, str(value)]
    serve_programs(ProgramService(catalog(absolute(programs)), workspace, arguments, dict(os.environ)))
