"""What a person reads while a workflow runs: each task and tool that is called, and what it came to."""

from __future__ import annotations

from stackmem.core.program_facts import StepEntered, StepLeft, ToolAnswered
from stackmem.languages.language import Announcer, Happening
from stackmem.languages.operations import Completion, FrameAnswer


def announcer() -> Announcer:
    return _lines


def _lines(happening: Happening) -> tuple[str, ...]:
    match happening:
        case StepEntered():
            return (f"{happening.path} {happening.call}",)
        case StepLeft():
            return (f"{happening.path} done",)
        case tuple():
            return tuple(line for each in happening for line in _lines(each))
        case FrameAnswer() | Completion() | ToolAnswered() if happening.failed:
            return (f"  failed ({happening.failed}): {happening.detail}",)
        case FrameAnswer():
            return (f"  {happening.result}",)
        case Completion():
            return (f"  {happening.text}",)
        case _:
            return ()
