"""Shows a program's run: what it says on stdout, its announcements and the agent's steps on stderr."""

from __future__ import annotations

import sys
from contextlib import suppress

import typer

from stackmem.core.facts import Event, RunStarted
from stackmem.core.program_facts import ProgramEvent, ProgramHalted, Said
from stackmem.core.state import State
from stackmem.languages.language import Announcer

from .progress import Progress
from .solving import readable, say

FOLDED_LINES = 40


class ProgramScreen:
    """Told of everything that happens in a program.

    Attributes:
        told_halt: Whether a halt's report was printed.

    """

    def __init__(self, announcer: Announcer, *, quiet: bool, full: bool, as_json: bool) -> None:
        self._announcer = announcer
        self._progress = Progress()
        self._folds = not full and sys.stdout is not None and sys.stdout.isatty()
        self._as_json = as_json
        self.quiet = quiet
        self.told_halt = False

    def __call__(self, happening: object) -> None:
        if isinstance(happening, Said):
            if not self._as_json:
                with suppress(OSError):
                    typer.echo(readable(happening.text))
        elif isinstance(happening, ProgramHalted):
            self.told_halt = True
            with suppress(OSError):
                typer.echo(readable(happening.report), err=self._as_json)
        if not self.quiet:
            for text in self._announcer(happening):
                say(self._folded(readable(text)))

    def observe(self, event: Event, state: State) -> None:
        """The agent's own steps, in the frames that the program hands to it."""
        if self.quiet or isinstance(event, ProgramEvent | RunStarted):
            return
        if state.stack and (state.running.program != "steps" or state.program is None):
            for line in self._progress.lines(event, state):
                say(line)

    def _folded(self, text: str) -> str:
        lines = text.split("\n")
        if not self._folds or len(lines) <= FOLDED_LINES:
            return text
        half = FOLDED_LINES // 2
        left_out = len(lines) - 2 * half
        return "\n".join([*lines[:half], f"[... {left_out:,} lines folded; --full shows them ...]", *lines[-half:]])
