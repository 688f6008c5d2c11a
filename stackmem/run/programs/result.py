"""What a program's run came to."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stackmem.core.program_facts import StepFailed
from stackmem.run.open import Opened
from stackmem.run.result import RunResult


class ProgramResult(Struct, frozen=True):
    """What a program's run came to."""

    run: RunResult
    value: Any = None  # what the program returned; None where it did not
    said: tuple[str, ...] = ()  # what it told its person
    failed: tuple[StepFailed, ...] = ()  # what was refused, failed or did nothing


def program_result(result: RunResult, opened: Opened) -> ProgramResult:
    program = opened.program
    if program is None:
        return ProgramResult(result)
    return ProgramResult(result, program.value, tuple(program.said), tuple(program.failed))
