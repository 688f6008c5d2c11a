"""``stackmem ui``."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from stackmem.cli.options import argument, option, runs_folder, switch
from stackmem.cli.screen.text import readable, say
from stackmem.core.errors import UsageError
from stackmem.foreign.installing import install_command
from stackmem.run.plugins.loading import load_plugins


def command(
    folders: list[Path] | None = argument("DIR", "Folders of runs or benches; by default your runs.", default=None),
    port: int = option("--port", "The port to listen on; 0 for any free port.", "N", default=0),
    open_it: bool = switch("--open", "Open the page in the browser."),
) -> None:
    """Show runs and benches live in the browser, on this machine only, until Ctrl-C."""
    try:
        from stackmem.doors.ui.server import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"stackmem ui needs {error.name}, which is not installed; install it: {install_command('ui')}"
        ) from error
    load_plugins()

    def ready(address: str) -> None:
        typer.echo(address)
        say("Open this address; Ctrl-C stops the server. Anyone with it can read these runs and start commands.")
        sys.stdout.flush()
        if open_it:
            typer.launch(address)

    for ended in serve(folders or [runs_folder(None)], port, ready):
        say(f"interrupted: {readable(ended)}")
