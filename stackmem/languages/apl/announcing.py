"""What a person reads while a program runs: every step, its tool, what it was given and what it gave, as they are.

A number of items is said before a loop, each item while it runs, and that all were done after it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import UNSET

from stackmem.core.facts import FramePushed, ModelReplied
from stackmem.core.messages import Text
from stackmem.core.program_facts import PhaseEnded, StepEntered, StepLeft, ToolAnswered, VariableSet
from stackmem.languages.effects import FrameAnswer, Group, InvokeTool, RunFrame
from stackmem.languages.language import Announcer, Happening

_FOREACH = re.compile(r"foreach (\d+)")
_ITEM = re.compile(r"item \d+ of \d+")
_ITERATION = re.compile(r"iteration (\d+)")


def announcer() -> Announcer:
    return _Announcements()


class _Announcements:
    """Remembers which loops are open, that an agent has not said yet what it plans, and what runs side by side."""

    def __init__(self) -> None:
        self._loops: dict[str, str] = {}
        self._plan_is_due = False
        self._in_group = False

    def __call__(self, happening: Happening) -> tuple[str, ...]:
        match happening:
            case StepEntered():
                return self._entered(happening)
            case StepLeft():
                return self._left(happening)
            case VariableSet():
                size = f", {happening.size:,}" if happening.size else ""
                return (f"  Register: {happening.name} ({happening.kind}{size})",)
            case InvokeTool():
                return (f"  Parameters: {_json(happening.arguments)}",)
            case RunFrame():
                hints = (f"  Using: {_json(happening.using)}",) if happening.using else ()
                return (f"  Goal: {happening.task}", *hints, f"  Parameters: {_json(happening.inputs)}")
            case Group():
                lines = [self(each) for each in happening.effects]
                self._in_group = True
                return tuple(f"  [{number}]{line[1:]}" for number, told in enumerate(lines, 1) for line in told)
            case FramePushed():
                self._plan_is_due = happening.program is not UNSET and happening.program.kind == "work"
                return ()
            case ModelReplied() if self._plan_is_due:
                self._plan_is_due = False
                return tuple(f"Plan: {part.text}" for part in happening.parts if isinstance(part, Text) and part.text)
            case tuple():
                self._in_group = False
                return tuple(line for each in happening if isinstance(each, FrameAnswer) for line in self(each))
            case ToolAnswered():
                mark = f"  [{happening.branch + 1}]" if self._in_group else " "
                return tuple(f"{mark}{line[1:]}" for line in _answer(happening))
            case FrameAnswer():
                self._plan_is_due = False
                failed = f" ({happening.failed}: {happening.detail})" if happening.failed else ""
                return (f"  Result{failed}: {happening.result}",)
            case PhaseEnded():
                return (f"Phase ended: {_name(happening.path)}",)
            case _:
                return ()

    def _entered(self, note: StepEntered) -> tuple[str, ...]:
        name = _name(note.path)
        if note.call == "phase":
            return (f"Phase: {name}",)
        if note.call == "skipped":
            return (f"Step: {name}", "  Skipped: its `if` does not hold.")
        if loop := _FOREACH.fullmatch(note.call):
            self._loops[note.path] = "foreach"
            return (f"Step: {name}", f"Entering `foreach` loop with {loop[1]} items.")
        if note.call == "while":
            self._loops[note.path] = "while"
            return (f"Step: {name}", "Entering `while` loop.")
        if _ITEM.fullmatch(note.call):
            return (f"Processing {note.call}",)
        if round_ := _ITERATION.fullmatch(note.call):
            return (f"Iteration {round_[1]}",)
        return (f"Step: {name}", f"  Tool: {note.call}") if "/" in note.path else (f"{name}: {note.call}",)

    def _left(self, note: StepLeft) -> tuple[str, ...]:
        match self._loops.pop(note.path, ""):
            case "foreach":
                return (f"Successfully completed all {note.size} iterations of the loop.",)
            case "while":
                return (f"Completed {note.size} iterations.",)
        size = f", {note.size:,}" if note.size else ""
        return (f"  Gave: {note.kind}{size}",)


def _answer(fact: ToolAnswered) -> tuple[str, ...]:
    failed = f" ({fact.failed}{': ' if fact.detail else ''}{fact.detail})" if fact.failed else ""
    value = fact.value
    if isinstance(value, dict) and set(value) == {"stdout", "stderr", "exit_code"}:
        lines = [f"  Exit code: {value['exit_code']}{failed}"]
        lines += [f"  {name}: {value[name]}" for name in ("stdout", "stderr") if value[name]]
        return tuple(lines)
    return (f"  Result{failed}: {value if isinstance(value, str) else _json(value)}",)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].replace("\N{DIVISION SLASH}", "/")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
