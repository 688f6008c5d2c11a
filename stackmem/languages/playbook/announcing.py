"""What a person reads while playbooks run: frames as they begin and end, each line, values, and what went wrong."""

from __future__ import annotations

from stackmem.core.program_facts import StepEntered, UserAnswered, VariableSet
from stackmem.languages.effects import Complete, EnterFrame, InvokeTool, LeaveFrame
from stackmem.languages.language import Announcer, Happening

from .session_log import brief


def announcer() -> Announcer:
    return _Announcements()


def _instruction(tail: str) -> list[str]:
    """The lines behind the state in the last part of a prompt."""
    return tail.rpartition("*Current state*")[2].split("\n")


class _Announcements:
    """Remembers how deep the frames are."""

    def __init__(self) -> None:
        self._depth = 0

    def __call__(self, happening: Happening) -> tuple[str, ...]:
        match happening:
            case EnterFrame():
                self._depth += 1
                return (self._line(f"▶ {happening.name}: {brief(happening.intent, 200)}", -1),)
            case LeaveFrame():
                self._depth = max(0, self._depth - 1)
                return (self._line(f"◀ {brief(happening.result, 200)}"),)
            case StepEntered():
                return (self._line(f"{happening.path} {happening.call}".rstrip()),)
            case VariableSet():
                size = f", {happening.size:,}" if happening.size else ""
                return (self._line(f"  ${happening.name} ({happening.kind}{size})"),)
            case UserAnswered():
                return (self._line(f"  the user said {brief(happening.text, 200)!r}"),)
            case InvokeTool() if happening.tool == "run_python" and not happening.arguments["answers"]:
                return (self._line("  runs Python"),)
            case Complete():
                said = [part.text for part in happening.messages[-1].parts if hasattr(part, "text")]
                return tuple(self._line(f"  {line}") for line in _instruction(said[-1]) if line.startswith("what? "))
            case _:
                return ()

    def _line(self, text: str, shift: int = 0) -> str:
        return "  " * max(0, self._depth + shift) + text
