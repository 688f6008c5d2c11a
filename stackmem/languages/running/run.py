"""Runs a program from start to result. One use of a run is to compile a playbook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import ProgramError, UsageError, WorkspaceError
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.state import State
from stackmem.run.folder_choice import with_copy
from stackmem.run.interrupts import Interrupts
from stackmem.run.open import open_run
from stackmem.run.opened import Opened, Person
from stackmem.run.plan import Fresh, plan_run, with_mounts
from stackmem.run.play import play
from stackmem.run.programs.result import ProgramResult, program_result
from stackmem.run.request import ProgramRequest
from stackmem.trace.program import keep_source, program_of, sources_of

from .prepare import PreparedProgram, ProgramArguments, prepare_program


def run_program(ready: PreparedProgram, environ: Mapping[str, str], person: Person) -> ProgramResult:
    """Run a program in a new workspace and store the complete run.

    Raises:
        UsageError: The request is not possible.
        WorkspaceError: The workspace or its isolation is not available.
        TraceError: The trace or the result cannot be written. Earlier records are complete.
        KeyboardInterrupt: Ctrl-C came before the first fact (SIGTERM: ``SystemExit``). As after ``UsageError`` and
            ``WorkspaceError``, no files are left behind.
    """
    folder = ready.request.subject.folder
    plan = with_mounts(plan_run(ready.request, environ), ready.program, folder)
    plan = replace(plan, request=with_copy(ready.request), begins=Fresh(ready.program))
    person.agree(plan.request)
    with Interrupts(person.stop) as interrupts, open_run(plan, environ, interrupts, person) as opened:
        with interrupts.setting_up("run", opened.places.scratch):
            run_dir = opened.places.run
            request = opened.stored.program or ready.program
            program_start = _started(request, opened.scrubber.scrub(ready.text), folder, opened)
            text_of = sources_of(run_dir)
            opened.program = program_of(
                program_start, opened.start, opened.strategy, text_of, keep=False, watch=person.watch
            )
            opened.program.listen(person.tell)
        return program_result(play(opened.start, State(), opened), opened)


def _started(request: ProgramRequest, text: str, folder: Path | None, opened: Opened) -> ProgramStarted:
    """Return the event that starts the program in the trace, and store the program's text in the run's folder."""
    workspace = Path(opened.workspace.path)

    def inside(path: Path) -> Path:
        """Return the path as commands see it, if the workspace contains it."""
        return workspace / path.relative_to(folder) if folder is not None and path.is_relative_to(folder) else path

    program, options = Path(request.path), dict(request.options)
    config = options.get("config")
    if config and folder is not None and Path(config).is_relative_to(folder):
        options["config"] = str(inside(Path(config)))
    own = inside(program.parent)
    digest = keep_source(opened.places.run, text)
    return ProgramStarted(request.language, str(inside(program)), digest, request.inputs, str(own), options)


class Compiled(Struct, frozen=True):
    """The result of compiling a program."""

    text: str
    written: Path | None  # the file; None if the program already has coded steps
    replies: int  # number of model replies; 0 if a compiled form of the same text already existed
    parts: tuple[str, ...] = ()  # the compiled parts, such as ``Main (triggers, steps)``


def compile_program(name: str, flags: Mapping[str, object], environ: Mapping[str, str], cwd: Path) -> Compiled:
    """Compile a playbook program and write the result next to it."""
    from stackmem.languages.playbook.compiler import compiled_path
    from stackmem.languages.playbook.reader import read_program

    ready = prepare_program(ProgramArguments(name, options={"compile": True}, interactive=False), flags, environ, cwd)
    if ready.language.name != "playbook":
        raise UsageError(f"{name} is not a playbook, and only playbooks are compiled; run it as it is")
    if ready.halts is not None:
        raise ProgramError(ready.halts.report)
    result = run_program(ready, environ, Person(lambda _: None))
    if result.run.outcome != "finished" or not isinstance(result.value, str):
        text = result.run.failure or result.run.result or result.run.outcome
        raise ProgramError(f"{text}; inspect the run {result.run.run}, or try another --model")
    if result.value == ready.text:
        return Compiled(result.value, None, result.run.steps)
    program = Path(ready.program.path)
    target = program.with_name(compiled_path(program.name))
    try:
        target.write_text(result.value, encoding="utf-8")
    except OSError as error:
        raise WorkspaceError(
            f"{target} cannot be written ({error.strerror}); free disk space or change the permissions"
        ) from error
    return Compiled(result.value, target, result.run.steps, read_program(ready.text).plain)
