"""What a person reads while an agent runs: each decision, what it calls, and what came of it."""

from __future__ import annotations

import json

from stackmem.core.program_facts import StepEntered, StepLeft, ToolAnswered
from stackmem.languages.effects import Complete, EnterFrame, Group, InvokeTool, LeaveFrame
from stackmem.languages.language import Announcer, Happening

_BRIEF_CHARS = 200


def announcer() -> Announcer:
    return _announced


def _announced(happening: Happening) -> tuple[str, ...]:
    match happening:
        case StepEntered():
            return (f"{happening.path}: {happening.call}",)
        case StepLeft():
            return (f"{happening.path}: {happening.size:,} iterations",)
        case InvokeTool():
            return (f"  {happening.tool} {_brief(json.dumps(happening.arguments, ensure_ascii=False))}",)
        case Group() if all(isinstance(each, Complete) for each in happening.effects):
            return (f"  {len(happening.effects)} agents side by side",)
        case Group():
            tools = dict.fromkeys(each.tool for each in happening.effects if isinstance(each, InvokeTool))
            return (f"  {len(happening.effects)} actions side by side: {', '.join(tools)}",)
        case EnterFrame():
            return (f"Asking {happening.name}: {_brief(happening.intent)}",)
        case LeaveFrame():
            return (f"Answered: {_brief(happening.result)}",)
        case ToolAnswered() if happening.failed:
            return (f"  failed ({happening.failed}): {_brief(happening.detail)}",)
        case _:
            return ()


def _brief(text: str) -> str:
    line = " ".join(text[: _BRIEF_CHARS * 2].split())
    return line if len(line) <= _BRIEF_CHARS else f"{line[:_BRIEF_CHARS]}…"
