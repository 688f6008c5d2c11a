"""Turns a playbook program of plain sentences into its coded form, and keeps it beside the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.errors import ProgramError, UsageError, WorkspaceError
from stackmem.languages.playbook.compiler import compiled_path
from stackmem.languages.playbook.reader import read_program as playbooks
from stackmem.run.open import Person
from stackmem.run.programs.run import run_program

from .prepare import ProgramArguments, prepare_program


class Compiled(Struct, frozen=True):
    """What came of it.

    Attributes:
        written: The file; None where the program is coded already.
        replies: Of the model; 0 where a compiled form of the same text was there.
        parts: What was compiled, such as ``Main (triggers, steps)``.
    """

    text: str
    written: Path | None
    replies: int
    parts: tuple[str, ...] = ()


def compile_program(named: str, flags: Mapping[str, object], environ: Mapping[str, str], cwd: Path) -> Compiled:
    """Compile a program.

    Raises:
        UsageError: It is no playbook program.
        ProgramError: The model's answers are no coded program, or the run ended before there was one.
        WorkspaceError: The result cannot be written.
    """
    ready = prepare_program(ProgramArguments(named, options={"compile": True}, interactive=False), flags, environ, cwd)
    if ready.language.name != "playbook":
        raise UsageError(f"{named} is no playbook program, and only those are compiled; run it as it is")
    if ready.halts is not None:
        raise ProgramError(ready.halts.report)
    result = run_program(ready, environ, Person(lambda _: None))
    if result.run.outcome != "finished" or not isinstance(result.value, str):
        told = result.run.failure or result.run.result or result.run.outcome
        raise ProgramError(f"{told}; look at the run {result.run.run}, or try another --model")
    if result.value == ready.text:
        return Compiled(result.value, None, result.run.steps)
    program = Path(ready.request.path)
    target = program.with_name(compiled_path(program.name))
    try:
        target.write_text(result.value, encoding="utf-8")
    except OSError as error:
        raise WorkspaceError(f"{target} cannot be written ({error.strerror}); make room or rights there") from error
    return Compiled(result.value, target, result.run.steps, playbooks(ready.text).plain)
