"""``stackmem mcp``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from stackmem.cli.options import Flags, argument, option, settings, takes
from stackmem.cli.screen.text import readable, say
from stackmem.core.text import quantity
from stackmem.doors.listening.token import token_of
from stackmem.doors.mcp.client_run import plan_client_run
from stackmem.doors.mcp.server import TOKEN_VARIABLE, serve_memory


@takes("flags", settings("runs_dir", "heap", "heap_chars", "heap_chunks", "depth", "fsync"))
def command(
    folder: str = argument("FOLDER", "The folder that the agent works in; by default the current one.", default="."),
    *,
    flags: Flags,
    http: int | None = option("--http", "Serve over HTTP at this port on this machine; 0 for any free port.", "PORT"),
) -> None:
    """Give any agent a heap and frames, as a Model Context Protocol server that is recorded as a run."""
    plan = plan_client_run(folder, flags, os.environ, Path.cwd())
    given = os.environ.get(TOKEN_VARIABLE, "")
    token = token_of(given if http is not None else "", TOKEN_VARIABLE)

    def ready(address: str) -> None:
        typer.echo(address)
        sys.stdout.flush()
        shown_token = f"the token of {TOKEN_VARIABLE}" if given else token
        say(f"clients must send the header Authorization: Bearer {shown_token}; Ctrl-C stops the server")

    result = serve_memory(plan, os.environ, None if http is None else (http, token), ready)
    if result is not None:
        counts = f"{quantity(result.steps, 'call')}, {quantity(len(result.chunks), 'chunk')}"
        say(readable(f"{result.run}: {counts}; stackmem view shows it"))
