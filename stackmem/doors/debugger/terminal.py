"""The terminal debugger of ``run --debug`` and ``debug RUN``: stops at program lines and reads commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from stackmem.core.errors import Halted
from stackmem.core.state import State
from stackmem.languages.debugger import DebugMoment
from stackmem.languages.loop_agent.conditions.evaluator import syntax_fault
from stackmem.languages.stepper import Mode, Stepper

from .debugged import RecordedMoments
from .inspection import scopes_of
from .stop_lines import why_never

HELP = """commands: c (continue), s (step in), n (step over), o (step out), b [FILE:]LINE [if CONDITION] (breakpoint),
d [FILE:]LINE (delete a breakpoint), v [NAME] (variables), h (heap), r (registers), f (frames of the run),
w (call stack), q (end the program)"""
_BACK = "in recorded runs also: rs (step back in), rn (step back over), rc (back to a breakpoint)"
_PROMPT = "debug> "
_MODES: dict[str, Mode] = {"c": "run", "s": "in", "n": "over", "o": "out"}
_SCOPES = {"v": "Variables", "h": "Heap", "r": "Registers", "f": "Frames"}


class TerminalDebugger:
    """Stops first at the program's entry. ``folder`` contains the program's files."""

    def __init__(self, folder: Path, reads: TextIO | None = None, say: Callable[[str], None] | None = None) -> None:
        self._folder = folder
        self._reads = reads or sys.stdin
        self._say = say or _print
        self._stepper = Stepper({}, "in")
        self._goes_back = False

    def __call__(self, moment: DebugMoment, state: State) -> None:
        """Stop before a line executes if a breakpoint or step asks for it.

        Raise Halted if the user ends the program.
        """
        moment = self._stepper.locate(moment)
        reason = self._stepper.reason(moment)
        if reason:
            self._stepper.go_on(_MODES[self._ask(reason, moment, state)], moment)

    def walk(self, moments: RecordedMoments) -> None:
        """Walk through a recorded run, forwards and backwards, until the user quits."""
        self._goes_back = True
        reason = "entry"
        while True:
            moment = self._stepper.locate(moments.moment)
            try:
                command = self._ask(reason, moment, moments.state)
            except Halted:
                return
            self._stepper.go_on(_MODES[command.removeprefix("r")], moment)
            if command.startswith("r"):
                reason = moments.backward(self._reason) or "start of the run"
            else:
                reason = moments.forward(self._reason) or "end of the run"

    def _reason(self, moment: DebugMoment) -> str:
        return self._stepper.reason(self._stepper.locate(moment))

    def _ask(self, reason: str, moment: DebugMoment, state: State) -> str:
        """Prompt until the user enters a command that resumes the program; return that command."""
        self._say(f"{_location(moment)} ({reason}) {moment.text}")
        if self._stepper.fault:
            self._say(f"the condition cannot be evaluated: {self._stepper.fault}")
        while True:
            self._say(_PROMPT)
            typed = self._reads.readline()
            if not typed:
                raise Halted("Stopped", "Program halted: the debugger's input ended")
            if command := self._done(typed.strip(), moment, state):
                return command

    def _done(self, typed: str, moment: DebugMoment, state: State) -> str:
        """Execute a debugger command. Return it if it resumes the program, else an empty string."""
        match typed.split():
            case [("c" | "s" | "n" | "o") as command]:
                return command
            case [("rc" | "rs" | "rn") as command] if self._goes_back:
                return command
            case ["b" | "d" as which, place, *rest]:
                self._breakpoint(which, place, rest, moment)
            case ["v" | "h" | "r" | "f" as which, *names]:
                self._show(scopes_of(moment.stack[0], state)[_SCOPES[which]], names)
            case ["w"]:
                for each in moment.stack:
                    self._say(f"{each.name} {each.path}:{each.line}")
            case ["q"]:
                raise Halted("Stopped", "Program halted: the debugger ended the program")
            case _:
                self._say(f"{HELP}\n{_BACK}" if self._goes_back else HELP)
        return ""

    def _breakpoint(self, command: str, location: str, rest: list[str], moment: DebugMoment) -> None:
        path, _, number = location.rpartition(":")
        condition = " ".join(rest[1:])
        fault = syntax_fault(condition) if condition else ""
        if not number.isdecimal() or (rest and (rest[0] != "if" or not condition)) or fault:
            self._say(f"not a breakpoint{': ' + fault if fault else ''}; type b [FILE:]LINE [if CONDITION]")
            return
        path = path or moment.stack[0].path
        lines = self._stepper.breakpoints.setdefault(path, {})
        if command == "b":
            lines[int(number)] = condition
            never = why_never(self._folder / path)(int(number))
            if never:
                self._say(f"the program will never stop there: {never}")
        else:
            lines.pop(int(number), None)
        texts = [
            f"{name}:{line}{' if ' + expression if expression else ''}"
            for name, each in sorted(self._stepper.breakpoints.items())
            for line, expression in sorted(each.items())
        ]
        self._say(f"breakpoints: {', '.join(texts) or 'none'}")

    def _show(self, values: dict[str, Any], names: list[str]) -> None:
        for name, value in values.items():
            if not names or name in names or name.lstrip("$") in names:
                self._say(f"{name} = {json.dumps(value, ensure_ascii=False, default=str)[:2_000]}")


def _print(text: str) -> None:
    """Print a line to stderr. At a terminal, what the user types stays in the line of the prompt."""
    end = "" if text == _PROMPT and sys.stdin.isatty() else "\n"
    print(text, file=sys.stderr, end=end, flush=True)  # noqa: T201 - a dialogue


def _location(moment: DebugMoment) -> str:
    return f"{moment.stack[0].path}:{moment.stack[0].line}"
