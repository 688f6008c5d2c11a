"""What ``replay`` prints of a run that is done again."""

from __future__ import annotations

import os
import signal
import sys

import msgspec
import typer

from stackmem.replays.live import LiveTools, WorkspaceCall, brief_call, replay_live
from stackmem.replays.model import Rerun, replay_model
from stackmem.run.interrupts import Interrupts
from stackmem.trace.open_run import Run

from .diff_text import left_out
from .live import open_screen, stop_at_once
from .progress import one_line
from .solving import readable, say

_DIFFERS = 6


def rerun_and_show(run: Run, first: int, *, tools: bool, as_json: bool) -> None:
    """Execute the calls again, or play again with the recorded replies; exit 6 where something else comes of it.

    Raises:
        StackmemError: As ``replay_live`` and ``replay_model`` do.

    """
    if tools:
        with Interrupts(stop_at_once) as interrupts:
            try:
                with interrupts.allowed():
                    live = replay_live(run, os.environ, first, None if as_json else _tell)
            except KeyboardInterrupt:
                sys.exit(128 + (interrupts.signal or signal.SIGINT))
        _show_live(live, as_json=as_json)
    else:
        with open_screen(quiet=as_json, asks=False) as screen:
            found = replay_model(run, os.environ, first, screen, stop_at_once)
        _show_rerun(found, as_json=as_json)


def _tell(effect: WorkspaceCall) -> None:
    say(f"executing {one_line(brief_call(effect))}")


def _show_live(found: LiveTools, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _say_missing(found.missing)
        same = f"{found.calls:,} calls returned what they had returned, at isolation {found.isolation}"
        if not found.difference and not found.calls:
            typer.echo(f"{found.run}: no call of a workspace tool, so nothing to execute again")
        elif not found.difference:
            typer.echo(f"{found.run}: all {same}")
        else:
            typer.echo(f"{found.run}: {same}, then one did not:")
            typer.echo(f"step {found.step}, record {found.seq}: {one_line(found.call)}\n{readable(found.difference)}")
        if found.differs_only_in:
            typer.echo(left_out(found.differs_only_in))
    sys.exit(_DIFFERS if found.difference else 0)


def _show_rerun(found: Rerun, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _say_missing(found.missing)
        typer.echo(
            f"{found.run}: {found.steps:,} steps from step {found.first} on, at isolation {found.isolation}: "
            f"{found.equal_facts:,} facts as recorded, outcome {found.outcome} (recorded: {found.recorded_outcome})"
        )
        if found.difference:
            typer.echo(f"the first other fact, in step {found.step}:\n{readable(found.difference)}")
        if found.differs_only_in:
            typer.echo(left_out(found.differs_only_in))
    sys.exit(_DIFFERS if found.difference else 0)


def _say_missing(missing: tuple[str, ...]) -> None:
    if missing:
        say(f"the workspace is without {', '.join(map(readable, missing))}: they are in no place any more")
