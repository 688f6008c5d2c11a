"""``stackmem replay --play``: a kept run, told again as it happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import typer

from stackmem.core.facts import Event
from stackmem.core.state import State
from stackmem.trace.moments import following
from stackmem.trace.open_run import Run

from .live import open_screen
from .progress import Progress

LONGEST_WAIT_SECONDS = 3.0


def walk(run: Run, speed: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Tell every step, waiting between records as the run did, ``speed`` times as fast, and never longer than 3 s.

    On a terminal a line below says where the run stands; elsewhere the lines go to stdout.

    Raises:
        TraceError: The trace is broken; what stands before that has been told.

    """
    progress = Progress()

    def lines(event: Event, state: State) -> None:
        for line in progress.lines(event, state):
            typer.echo(line)

    live = sys.stdout.isatty() and sys.stderr.isatty()
    screen: AbstractContextManager[Callable[[Event, State], None]]
    screen = open_screen(quiet=False, asks=False) if live else nullcontext(lines)
    state, before = State(), None
    with screen as show:
        for record in run.records():
            if before is not None:
                sleep(min(LONGEST_WAIT_SECONDS, max(0.0, record.at - before) / speed))
            before = record.at
            state = following(state, record)
            show(record.event, state)
    if state.end is None:
        typer.echo("the trace ends here; the run was cut short")
