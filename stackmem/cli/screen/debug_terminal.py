"""``run --debug``: stops at lines of a playbook program, and takes commands at the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from stackmem.languages.operations import Halted
from stackmem.languages.playbook.debugger import WATCHERS, DebugMoment, Mode, Stepper

HELP = """commands: c (continue), s (step in), n (step over), o (step out), b LINE (breakpoint), d LINE (delete it),
v [NAME] (variables), w (call stack), q (end the program)"""
_MODES: dict[str, Mode] = {"c": "run", "s": "in", "n": "over", "o": "out"}


class TerminalDebugger:
    """Stops first where the program begins."""

    def __init__(self, reads: TextIO | None = None, say: Callable[[str], None] | None = None) -> None:
        self._reads = reads or sys.stdin
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201 - a dialogue
        self._stepper = Stepper(set(), "in")

    def __call__(self, moment: DebugMoment) -> None:
        """A line is about to be executed.

        Raises:
            Halted: The person ends the program.
        """
        reason = self._stepper.reason(moment)
        if not reason:
            return
        line = moment.stack[0].line if moment.stack else 0
        self._say(f"{moment.path}:{line} ({reason}) {moment.text}")
        while True:
            self._say("debug> ")
            typed = self._reads.readline()
            if not typed:
                raise Halted("Stopped", "Playbook halted: the debugger's input ended")
            if self._done(typed.split(), moment):
                return

    def _done(self, words: list[str], moment: DebugMoment) -> bool:
        """Obey a command; gives whether the program goes on."""
        match words:
            case [("c" | "s" | "n" | "o") as mode]:
                self._stepper.go_on(_MODES[mode], moment)
                return True
            case ["b" | "d" as which, number] if number.isdigit():
                change = self._stepper.breakpoints.add if which == "b" else self._stepper.breakpoints.discard
                change(int(number))
                self._say(f"breakpoints: {', '.join(map(str, sorted(self._stepper.breakpoints))) or 'none'}")
            case ["v", *names]:
                wanted = [name.lstrip("$") for name in names]
                for name, value in (moment.stack[0].variables if moment.stack else {}).items():
                    if not wanted or name in wanted:
                        self._say(f"${name} = {json.dumps(value, ensure_ascii=False, default=str)[:2_000]}")
            case ["w"]:
                for place in moment.stack:
                    self._say(f"{place.name} {moment.path}:{place.line}")
            case ["q"]:
                raise Halted("Stopped", "Playbook halted: the debugger ended the program")
            case _:
                self._say(HELP)
        return False


@contextmanager
def debug_at_terminal(language: str, *, wanted: bool) -> Iterator[None]:
    """Stop at the lines of a playbook program while this is open, where it is wanted."""
    if not wanted or language != "playbook":
        yield
        return
    watcher = TerminalDebugger()
    WATCHERS.append(watcher)
    try:
        yield
    finally:
        WATCHERS.remove(watcher)
