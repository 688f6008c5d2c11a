"""One run of a program from its start to its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.program_facts import ProgramStarted, Said
from stackmem.core.state import State
from stackmem.errors import WorkspaceError
from stackmem.history.history import History
from stackmem.history.ignored import IgnoreRules
from stackmem.run.assemble import Parts, Places, Plan, assemble, plan
from stackmem.run.interrupts import Interrupts
from stackmem.run.perform import ProgramWorld, scrubbed
from stackmem.run.play import Observe, Opened, applied, play
from stackmem.run.request import ProgramRequest, write_request
from stackmem.run.result import RunResult
from stackmem.run.run_folder import HISTORY, TRACE, new_run
from stackmem.run.solve import asked_of, fill_workspace, remove_unbegun
from stackmem.tools.own_tools import TOOLS
from stackmem.trace.program import keep_source, program_of, sources_of
from stackmem.trace.store import TraceWriter
from stackmem.workspace.profile import Mount
from stackmem.workspace.workspace import Workspace

from .bench import Bench
from .edited_sources import EditedSources
from .prepare import PreparedProgram, reachable
from .sources import Loader, as_read, keeping

AskPerson = Callable[[str], str | None]
Tell = Callable[[object], object]


class ProgramResult(Struct, frozen=True):
    """What a program's run came to.

    Attributes:
        value: What the program returned; None where it did not.
        said: What it told its person.

    """

    run: RunResult
    value: Any = None
    said: tuple[str, ...] = ()


class Person(Struct, frozen=True):
    """Who the program talks to.

    Attributes:
        ask: Their answer to a question, or None where nobody answers.
        tell: Told of everything that happens in the program, see ``programs.language.Happening``.
        observe: Told of every fact and the state it makes.
        stop: Ends the process with an exit code at a second Ctrl-C.

    """

    ask: AskPerson
    tell: Tell = id
    observe: Observe | None = None
    stop: Callable[[int], object] = os._exit


def run_program(ready: PreparedProgram, environ: Mapping[str, str], person: Person) -> ProgramResult:
    """Run a program in a workspace of its own, and keep the whole run.

    Raises:
        UsageError: What was asked for cannot be; nothing is left behind.
        WorkspaceError: The workspace or its isolation cannot be had; nothing is left behind.
        TraceError: The trace or the result cannot be written any more; what stood before is whole.
        KeyboardInterrupt: Ctrl-C came before the first fact; nothing is left behind. (SIGTERM: ``SystemExit``.)

    """
    prepared = ready.prepared
    planned = with_mounts(plan(prepared, environ), ready.request, prepared.subject.folder)
    runs_dir, sandbox_dir = prepared.folders
    run_dir = new_run(runs_dir, prepared.subject.name, ready.language.name)
    places = Places(run_dir, sandbox_dir / run_dir.name / "workspace", sandbox_dir / run_dir.name)
    with ExitStack() as stack, Interrupts(person.stop) as interrupts:
        stack.callback(remove_unbegun, places)
        writer = TraceWriter(run_dir / TRACE)
        stack.callback(writer.close)
        with interrupts.setting_up("run", places.scratch):
            fill_workspace(places, prepared)
            history = History(run_dir / HISTORY, places.work, prepared.copy.folders if prepared.copy else ())
            sync = writer.syncs(prepared.resolved.settings.fsync, history.sync)
            parts = assemble(planned, prepared, places, environ, sync, history)
            stack.callback(parts.workspace.close)
            ready = replace(ready, request=without_secrets(ready.request, parts.scrubber.scrub))
            write_request(replace(asked_of(prepared, places), program=ready.request), run_dir)
            begun = _begun(ready, parts, places)
            told = Told(person.tell)
            program = program_of(begun, parts.start, parts.strategy, sources_of(run_dir), told, keep=False)
        parts.world.program = program_world(parts, places, ready.request, person)
        folder = str(prepared.subject.folder or "")
        opened = Opened(parts, places, writer, history, interrupts, folder, person.observe, decider=program)
        result = play(parts.start, State(), opened)
        result = applied(result, folder, wanted=prepared.resolved.settings.apply)
        return ProgramResult(result, program.value, tuple(told.said))


class Told:
    """Passes on what happens, and keeps what the program said."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.said: list[str] = []

    def __call__(self, happening: object) -> None:
        if isinstance(happening, Said):
            self.said.append(happening.text)
        self._tell(happening)


def _begun(ready: PreparedProgram, parts: Parts, places: Places) -> ProgramStarted:
    """The program as the trace begins with it; its text is kept in the run's folder."""
    program, folder = Path(ready.request.path), ready.prepared.subject.folder
    inside = folder is not None and program.is_relative_to(folder)
    own = Path(parts.workspace.path) / program.parent.relative_to(folder) if inside and folder else program.parent
    path = str(Path(parts.workspace.path) / program.relative_to(folder)) if inside and folder else str(program)
    text = parts.scrubber.scrub(ready.text)
    request, options = ready.request, dict(ready.request.options)
    config = options.get("config")
    if config and folder is not None and Path(config).is_relative_to(folder):
        options["config"] = str(Path(parts.workspace.path) / Path(config).relative_to(folder))
    return ProgramStarted(request.language, path, keep_source(places.run, text), request.inputs, str(own), options)


def without_secrets(request: ProgramRequest, scrub: Callable[[str], str]) -> ProgramRequest:
    """The request as it is kept, and as the program is given it."""
    return replace(request, inputs=scrubbed(request.inputs, scrub), options=scrubbed(request.options, scrub))


def with_mounts(planned: Plan, request: ProgramRequest, folder: Path | None) -> Plan:
    """The plan with the program's folder, where the workspace has it not, and those of ``--mount``, read-only."""
    program = Path(request.path)
    outside = folder is None or not program.is_relative_to(folder)
    own = [*([str(program.parent)] if outside else []), *request.mounts]
    mounts = tuple(Mount(path, path) for path in dict.fromkeys(own))
    profile = planned.profile
    return replace(planned, profile=replace(profile, mounts=(*profile.mounts, *mounts)))


def program_world(parts: Parts, places: Places, request: ProgramRequest, person: Person) -> ProgramWorld:
    """What the program's effects are performed with."""
    world, workspace = parts.world, parts.workspace
    if not isinstance(workspace, Workspace):
        raise WorkspaceError("a program needs a workspace on the disk; choose another level with --isolation")
    loader = Loader(Path(request.path), reachable(request, None), (workspace.path, workspace.files))
    rules = partial(IgnoreRules, places.run / HISTORY, workspace.root)
    seen = (workspace.path, places.run / HISTORY)
    instead = EditedSources(request, request.edited, seen, world.scrub).instead if request.edited else as_read
    return ProgramWorld(
        bench=Bench(workspace, world.snapshot, world.scrub, world.command_seconds, rules, parts.literal_bytes),
        load=keeping(loader, lambda text: keep_source(places.run, text), world.scrub, instead),
        ask_user=person.ask,
        own_tools=dict(TOOLS),
        parallel=frozenset(name for name, tool in TOOLS.items() if tool.parallel),
    )
