"""What a program did between two replies, as the page tells it: a kind, and what there is to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stackmem.core.facts import Event
from stackmem.core.program_facts import (
    ChunkDropped,
    ChunkKept,
    ProgramHalted,
    ProgramReturned,
    ProgramStarted,
    Said,
    SourceLoaded,
    StepEntered,
    StepLeft,
    ToolAnswered,
    UserAnswered,
    VariableSet,
    Waited,
)
from stackmem.core.requests import AskUser, Effect, InvokeTool
from stackmem.core.text import clip_chars

from .steps import Fact
from .texts import Ref

MOST_CHARS = 4_000
"""Of one text; an artifact or a result may have millions."""
BRIEF_AFTER = 200
BRIEF_CHARS = 200
"""Of a text that comes after so many other facts of the same step, as those of a long loop do."""


def program_fact(event: Event, question: Effect | None, told: int, ref: Callable[[str], Ref]) -> Fact | None:
    """What the page tells of an event of a program, if anything.

    Args:
        question: What the event answers.
        told: Facts of the same step so far.

    """
    most = MOST_CHARS if told < BRIEF_AFTER else BRIEF_CHARS

    def text(value: Any) -> Ref:
        return ref(clip_chars(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), most))

    match event:
        case StepEntered():
            return ["step", event.path, event.call]
        case StepLeft():
            return ["left", event.path, event.kind, event.size]
        case VariableSet():
            return ["set", event.name, event.kind, event.size]
        case Said():
            return ["said", text(event.text)]
        case ToolAnswered():
            name, given = (question.tool, question.arguments) if isinstance(question, InvokeTool) else ("tool", {})
            back = text("" if event.value is None and event.failed else event.value)
            return ["tool", back, name, text(given), event.failed, event.detail[:MOST_CHARS]]
        case UserAnswered():
            asked = question.question if isinstance(question, AskUser) else ""
            return ["answer", text(event.text), text(asked)]
        case _:
            return _of_its_course(event, text)


def _of_its_course(event: Event, text: Callable[[Any], Ref]) -> Fact | None:
    match event:
        case Waited():
            return ["waited", event.seconds]
        case ChunkKept():
            return ["heap", "written", event.name, len(event.content), text(event.content)]
        case ChunkDropped():
            return ["heap", "freed", event.name, 0]
        case SourceLoaded():
            return ["source", event.path, event.chars, event.failed]
        case ProgramStarted():
            return ["program", event.language, event.path]
        case ProgramHalted():
            return ["halted", text(event.report), event.kind]
        case ProgramReturned():
            return ["returned", event.kind, event.size]
        case _:
            return None
