"""A kept run's world once more: its files of a moment in a fresh workspace, at its isolation level, for as long as it
is looked at. Nothing of it is kept, and no model can be asked in it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.state import State
from stackmem.errors import UsageError, WorkspaceError
from stackmem.history.history import History
from stackmem.history.sharing import share
from stackmem.run.assemble import Parts, Places, assemble, plan
from stackmem.run.in_memory import MEMORY, NoHistory, recall
from stackmem.run.perform import ProgramWorld, World
from stackmem.run.prepare import prepare_kept
from stackmem.run.programs.run import Person, program_world, with_mounts
from stackmem.run.refill import must_be_original, refill
from stackmem.run.request import ProgramRequest, read_request
from stackmem.run.run_folder import HISTORY
from stackmem.tools.plugins import load_plugins
from stackmem.trace.open_run import Run
from stackmem.workspace.tree import remove_tree

from .recorded_world import Recorded


class Rehearsal(Struct, frozen=True):
    """Attributes:
    places: ``run`` holds nothing but the history of the workspace's files.
    missing: Dependency folders that are nowhere any more; the workspace is without them.
    program: Of a program's run, what was asked for.
    """

    parts: Parts
    places: Places
    isolation: str
    missing: tuple[str, ...]
    program: ProgramRequest | None = None

    @property
    def world(self) -> World:
        return self.parts.world

    def program_world(self, recorded: Recorded) -> ProgramWorld:
        """The world of the run's program: its workspace is here, and all else answers as it did."""
        if self.program is None:
            raise UsageError("the run's request names no program; stackmem replay tells what its trace holds")
        program = program_world(self.parts, self.places, self.program, Person(recorded.person))
        program.load, program.own_tools = recorded.load, recorded.tools
        return program


@contextmanager
def rehearse(run: Run, state: State, at: int, environ: Mapping[str, str]) -> Iterator[Rehearsal]:
    """The world of one of the run's states, which is the one after record ``at``.

    Raises:
        UsageError: The run's task is gone, or it kept no files.
        TraceError: Its history or its request is missing.
        WorkspaceError: The workspace, or its isolation, cannot be had.

    """
    load_plugins()
    must_be_original(run, "executed again")
    base, request = state.begun, read_request(run.folder)
    nobody = {"model": "human", "base_url": None, "window_tokens": None, "prompt": None, "max_usd": None}
    settings = {**nobody, "strategy": base.strategy, "isolation": base.isolation}
    prepared = prepare_kept(request, run.folder.parent, settings, environ)
    planned = plan(prepared, environ)
    if request.program is not None:
        planned = with_mounts(planned, request.program, Path(request.subject))
    profile = replace(planned.profile, network=base.network, command_seconds=base.command_seconds)
    scratch = prepared.folders[1] / f"replay-{secrets.token_hex(6)}"
    places = Places(scratch, scratch / "workspace", scratch)
    try:
        try:
            missing: tuple[str, ...] = ()
            history: History | NoHistory = NoHistory()
            if base.isolation != MEMORY:
                missing = refill(run, state, places, request)
                share(run.folder / HISTORY, scratch / HISTORY, state.tree)
                history = History(scratch / HISTORY, places.work, request.leave_out)
            parts = assemble(replace(planned, profile=profile), prepared, places, environ, _nothing, history)
            if base.isolation == MEMORY:
                recall(run.records(), at, parts.world)
        except OSError as error:
            place = error.filename or scratch
            raise WorkspaceError(
                f"the workspace cannot be set up at {place} ({error.strerror}); make room or rights there"
            ) from error
        try:
            parts.world.sleep = _no_wait
            yield Rehearsal(parts, places, parts.workspace.level, missing, request.program)
        finally:
            parts.workspace.close()
    finally:
        remove_tree(scratch)


def _nothing() -> None:
    """There is no trace to be forced to the disk."""


def _no_wait(seconds: float) -> None:
    """Nobody is asked, so nobody is waited for."""
