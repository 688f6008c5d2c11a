"""``stackmem fork``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackmem.cli.options import Flags, JsonResult, Quiet, RunName, flag, limits, option, run_folder, settings, takes
from stackmem.cli.screen.live import is_played_by_person, open_screen, stop_at_once
from stackmem.cli.screen.result import say_missing, show_result
from stackmem.cli.screen.text import echo_json, readable, say
from stackmem.run.fork import fork, read_changes


@takes("flags", settings("strategy", "model", "base_url", "window_tokens", "price", "prompt", "isolation"))
@takes("limits", limits("the oldest start", "the run had"))
def command(
    run: RunName,
    at: int = option("--at", "The step after which the new run begins; 0: the start.", "N", default=...),
    *,
    flags: Flags,
    sets: list[str] | None = option(
        "--set", "Puts a chunk on the heap; several times for more.", "heap.NAME=TEXT|@FILE"
    ),
    drops: list[str] | None = option("--drop", "Takes a chunk from the heap; several times for more.", "heap.NAME"),
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
