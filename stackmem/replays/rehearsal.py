"""A kept run's world once more: its files of a moment in a fresh workspace, at its isolation level, for as long as it
is looked at. Nothing of it is kept, and no model can be asked in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stackmem.core.state import State
from stackmem.run.begin import Rehearsed, must_be_original, plan_kept
from stackmem.run.interrupts import Interrupts
from stackmem.run.open import Opened, Person, open_run
from stackmem.run.prepare import prepare_kept
from stackmem.run.request import read_request
from stackmem.tools.plugins import load_plugins
from stackmem.trace.open_run import Run

from .recorded_world import Recorded


@contextmanager
def rehearse(run: Run, state: State, at: int, environ: Mapping[str, str], recorded: Recorded) -> Iterator[Opened]:
    """The world of one of the run's states, which is the one after record ``at``.

    Args:
        recorded: What the run is answered from outside of its workspace.

    Raises:
        UsageError: The run's task is gone, or it kept no files.
        TraceError: Its history or its request is missing.
        WorkspaceError: The workspace, or its isolation, cannot be had.
    """
    load_plugins()
    must_be_original(run, "executed again")
    base, request = state.begun, read_request(run.folder)
    nobody = {"model": "human", "base_url": None, "window_tokens": None, "isolation": base.isolation}
    prepared = prepare_kept(request, run.folder.parent, base, nobody, environ)
    plan = plan_kept(prepared, request, base, environ)
    beginning = Rehearsed(prepared, plan, request, run, state, at)
    with open_run(beginning, environ, Interrupts(), Person(recorded.person)) as opened:
        world = opened.parts.world
        world.sleep, world.own_tool = _no_wait, recorded.own_tool
        if world.program is not None:
            world.program.load, world.program.own_tools = recorded.load, recorded.tools
        yield opened


def _no_wait(seconds: float) -> None:
    """Nobody is asked, so nobody is waited for."""
