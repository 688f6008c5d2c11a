"""A program's part of the state: where it stands. Its variables are the interpreter's, and are derived again."""

from __future__ import annotations

from msgspec import Struct

from .program_facts import ProgramHalted, ProgramReturned, ProgramStarted

PROGRAM_DEPTH = 50
"""Frames of programs on one another; the agent's own pushes count from the frame that it was given."""
PROGRAM_RESULT_CHARS = 100_000
"""Most characters of a result that a program's frame returns."""
UNFIT_RESULTS = 3
"""Results that do not fit their schema, after which the frame has failed."""


class ProgramState(Struct, frozen=True):
    """Where a program stands.

    Attributes:
        path: Of the step that was entered last.
        entered: Steps entered so far.
        said: Texts said so far.
        halted, returned: How it ended, once it has; a resumed run takes back a halt.

    """

    start: ProgramStarted
    path: str = ""
    entered: int = 0
    said: int = 0
    halted: ProgramHalted | None = None
    returned: ProgramReturned | None = None
