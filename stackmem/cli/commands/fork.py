"""``stackmem fork``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackmem.cli.options import Flags, JsonResult, Quiet, RunName, flag, limits, option, run_folder, settings, takes
from stackmem.cli.screen.live import is_played_by_person, open_screen, stop_at_once
from stackmem.cli.screen.result import say_missing, show_result
from stackmem.cli.screen.text import echo_json, readable, say
from stackmem.run.fork import FORK_SETTINGS, fork, read_changes


@takes("flags", settings(*FORK_SETTINGS))
@takes("limits", limits("the start of the oldest run", "of the run"))
def command(
    run: RunName,
    at: int = option("--at", "Start after this step; 0 is the beginning.", "N", default=...),
    *,
    flags: Flags,
    sets: list[str] | None = option("--set", "Put a chunk on the heap; repeatable.", "heap.NAME=TEXT|@FILE"),
    drops: list[str] | None = option("--drop", "Remove a chunk from the heap; repeatable.", "heap.NAME"),
    limits: Flags,
    runs_dir: str | None = flag("runs_dir"),
    json: JsonResult = False,
    quiet: Quiet = False,
) -> None:
    """Start a new run from a step of an earlier run, with a different memory, model or prompt."""
    changes = read_changes(flags | limits, sets or [], drops or [], Path.cwd())
    folder = run_folder(run, runs_dir)
    with open_screen(quiet=quiet, asks=is_played_by_person(folder, changes.model)) as screen:
        forked = fork(
            folder, at, changes, os.environ, screen, stop_at_once, observe_frame=screen.observe_frame,
            observe_reading=screen.observe_reading,
        )  # fmt: skip
    result = forked.result
    if result.failure:
        say(f"stackmem: {readable(result.failure)}")
    say_missing(forked.missing)
    if json:
        echo_json(result)
    else:
        show_result(result, folder=bool(forked.folder), checked=forked.checked)
    sys.exit(result.exit_code)
