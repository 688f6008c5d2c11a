"""The outcome of a program run."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stackmem.core.program_facts import StepFailed
from stackmem.run.opened import Opened
from stackmem.run.result import RunResult


class ProgramResult(Struct, frozen=True):
    """The outcome of a program run."""

    run: RunResult
    value: Any = None  # the program's return value; None if it did not return
    said: tuple[str, ...] = ()  # messages from the program to the user
    failed: tuple[StepFailed, ...] = ()  # steps that were refused, failed or had no effect


def program_result(result: RunResult, opened: Opened) -> ProgramResult:
    program = opened.program
    if program is None:
        return ProgramResult(result)
    return ProgramResult(result, program.value, tuple(program.messages), tuple(program.failed))
