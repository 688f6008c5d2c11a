"""``stackmem fork``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from stackmem.cli.options import Flags, JsonResult, Quiet, RunName, flag, limits, settings, takes
from stackmem.cli.places import run_folder
from stackmem.cli.screen.live import is_played_by_person, open_screen, stop_at_once
from stackmem.cli.screen.result import say_missing, show_result
from stackmem.cli.screen.text import echo_json, readable, say
from stackmem.run.fork import fork, read_changes


@takes("flags", settings("strategy", "model", "base_url", "window_tokens", "prompt", "isolation"))
@takes("limits", limits("the oldest start", "the run had"))
def command(
    run: RunName,
    at: Annotated[
        int, typer.Option("--at", metavar="N", help="The step after which the new run begins; 0: the start.")
    ],
    *,
    flags: Flags,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="heap.NAME=TEXT|@FILE", help="Puts a chunk on the heap; several times for more."),
    ] = None,
    drops: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="heap.NAME", help="Takes a chunk from the heap; several times for more."),
    ] = None,
    limits: Flags,
    runs_dir: str | None = flag("runs_dir"),
    json: JsonResult = False,
    quiet: Quiet = False,
) -> None:
    """Go on in a new run from where a run stood after a step, with another memory, model or prompt."""
    changes = read_changes(flags | limits, sets or [], drops or [], Path.cwd())
    folder = run_folder(run, runs_dir)
    with open_screen(quiet=quiet, asks=is_played_by_person(folder, changes.model)) as screen:
        forked = fork(folder, at, changes, os.environ, screen, stop_at_once)
    result = forked.result
    if result.failure:
        say(f"stackmem: {readable(result.failure)}")
    say_missing(forked.missing)
    if json:
        echo_json(result)
    else:
        show_result(result, folder=bool(forked.folder), checked=forked.checked)
    sys.exit(result.exit_code)
