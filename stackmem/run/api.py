"""The three functions of the Python API that read files or run commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stackmem.core.facts import Event
from stackmem.core.state import State
from stackmem.run.plugins.loading import load_plugins
from stackmem.settings.directories import runs_places
from stackmem.trace.open_run import Run

from .companion.find import find_run
from .opened import ObserveFrame
from .prepare import prepare
from .replays.replay import Replayed, replay_run
from .result import RunResult
from .solve import solve as solve_prepared


def solve(
    task: str | os.PathLike[str],
    text: str | None = None,
    *,
    observe: Callable[[Event, State], None] | None = None,
    observe_frame: ObserveFrame | None = None,
    environ: Mapping[str, str] | None = None,
    attach: Sequence[str] = (),
    **settings: object,
) -> RunResult:
    """Solve a task, or work on a copy of a folder, like ``stackmem solve``.

    Args:
        task: A task's folder or name, or with ``text`` any folder of yours.
        text: What to do in that folder.
        observe: Receives every fact and the resulting state as it happens.
        observe_frame: Receives the name of a parallel frame, its facts and questions, and its state. Called in the
            frame's thread.
        environ: Replaces the process's environment: keys, ``STACKMEM_*``.
        attach: Files, folders and images for the task. ``path:10-40`` attaches lines.
        settings: Any flag of ``stackmem solve`` with ``_`` for ``-``: ``model="demo"``, ``max_steps=50``.

    Raises:
        StackmemError: When the command line would exit with 2, 5 or 7. A run that ends on its own never raises.
    """
    variables = os.environ if environ is None else environ
    prepared = prepare(os.fspath(task), text, settings, variables, Path.cwd())
    return solve_prepared(prepared, variables, observe, attached=attach, observe_frame=observe_frame)


def replay(run: str | os.PathLike[str]) -> Replayed:
    """Verify every event and prompt of a run, given as a folder, an id, a unique prefix or ``last``.

    Raises:
        TraceError: A line of the trace is broken.
        RulesDiffer: Today's rules derive something else. The message names the record.
        UsageError: The run does not exist.
    """
    return replay_run(find_run(os.fspath(run), *runs_places(None, os.environ, Path.cwd())))


def open_run(run: str | os.PathLike[str]) -> Run:
    """Open a stored run, given as a folder, an id, a unique prefix or ``last``. Its trace is not read yet.

    Raises:
        UsageError: The run does not exist.
    """
    load_plugins()  # the run's strategy may come from a plug-in
    return Run(find_run(os.fspath(run), *runs_places(None, os.environ, Path.cwd())))
