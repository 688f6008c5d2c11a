"""Converts events to the facts that a page displays: a kind and its values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from stackmem.core import facts, program_facts
from stackmem.core.declarations import VoiceKind
from stackmem.core.parallel.facts import FrameReturned, FramesPushed
from stackmem.core.requests import AskUser, Effect, InvokeTool
from stackmem.core.state import Result
from stackmem.core.text import clip_chars

from .rows import PageFact
from .texts import Ref, Texts

MAX_CHARS = 4_000
"""Maximum characters of one text; a result or artifact may have millions."""
BRIEF_AFTER = 200
BRIEF_CHARS = 200
"""Shorter limit for texts after ``BRIEF_AFTER`` facts of the same step, as in long loops."""

HIDDEN: frozenset[VoiceKind] = frozenset({"internal", "run", "reply", "program"})
"""Kinds that a page shows elsewhere: the head, the steps and the program's own list. Internal facts are not shown."""


def fact_of(event: facts.Event, texts: Texts, frames: Mapping[str, int], result: Result | None) -> PageFact | None:
    """Return a page's fact for an event; None for events that are not displayed.

    Args:
        frames: Frame id to index.
        result: The last result that the running frame received.
    """
    ref = texts.ref
    match event:
        case facts.ToolReturned():
            return ["result", ref(event.text), int(event.failed), event.exit_code]
        case facts.VerifyReturned():
            return ["verify", ref(event.text), event.outcome]
        case facts.ContextCompacted():
            return ["compacted", ref(event.text), event.up_to_step]
        case facts.CallRejected():
            return ["rejected", ref(event.reason), event.code]
        case facts.ReplyNudged() | facts.NoticeGiven():
            return ["notice", ref(event.text), event.code]
        case facts.FramePushed():
            return ["pushed", frames.get(event.frame, -1)]
        case facts.FramePopped():
            return ["popped", frames.get(event.frame, -1), event.forced, event.verified]
        case facts.ModelFailed():
            return ["failed", event.kind, ref(event.detail)]
        case facts.ChecksReturned():
            rewards = ", ".join(f"{name} {reward:g}" for name, reward in event.rewards.items())
            return ["checks", ref("\n".join(filter(None, (rewards, event.error, event.text))))]
        case facts.RunResumed():
            return ["resumed", event.version]
        case facts.RunForked():
            return ["forked", event.parent, event.at]
        case facts.RunEnded():
            return ["ended", event.ending]
        case _:
            return _of_memory(event, ref, result) or _of_parallel(event, ref) or _notice(event, ref)


def _of_parallel(event: facts.Event, ref: Callable[[str], Ref]) -> PageFact | None:
    match event:
        case FramesPushed():
            return ["frames", [[each.frame, each.name] for each in event.frames], ref(event.voice.text)]
        case FrameReturned():
            return ["joined", event.frame, event.run, ref(event.text), event.ending]
        case _:
            return None


def _notice(event: facts.Event, ref: Callable[[str], Ref]) -> PageFact | None:
    """Return a fact that has no form of its own as a notice."""
    voice = event.voice
    return None if voice.kind in HIDDEN else ["notice", ref(voice.text), voice.line]


def _of_memory(event: facts.Event, ref: Callable[[str], Ref], result: Result | None) -> PageFact | None:
    match event:
        case facts.ChunkRead():
            return ["heap", "read", ", ".join(event.names), event.chars, ref(result.text) if result else None]
        case facts.ChunkAllocated() | facts.ChunkWritten() | facts.ChunkFreed():
            return ["heap", type(event).__name__.removeprefix("Chunk").lower(), event.name, event.chars]
        case facts.CallAnswered():
            return ["result", ref(result.text), 0, None] if result else None
        case _:
            return None


def program_fact(event: facts.Event, question: Effect | None, count: int, ref: Callable[[str], Ref]) -> PageFact | None:
    """Return a page's fact for an event of a program; None for events that are not displayed."""
    most = MAX_CHARS if count < BRIEF_AFTER else BRIEF_CHARS

    def text(value: Any) -> Ref:
        return ref(clip_chars(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), most))

    match event:
        case program_facts.StepEntered():
            return ["step", event.path, event.call]
        case program_facts.StepLeft():
            return ["left", event.path, event.kind, event.size]
        case program_facts.StepFailed():
            return ["failed", event.path, text(event.reason)]
        case program_facts.VariableSet():
            return ["set", event.name, event.kind, event.size]
        case program_facts.Said():
            return ["said", text(event.text)]
        case program_facts.ToolAnswered():
            name, arguments = (question.tool, question.arguments) if isinstance(question, InvokeTool) else ("tool", {})
            back = text("" if event.value is None and event.failed else event.value)
            return ["tool", back, name, text(arguments), event.failed, event.detail[:MAX_CHARS]]
        case program_facts.UserAnswered():
            question_text = question.question if isinstance(question, AskUser) else ""
            return ["answer", text(event.text), text(question_text)]
        case _:
            return _of_its_course(event, text)


def _of_its_course(event: facts.Event, text: Callable[[Any], Ref]) -> PageFact | None:
    match event:
        case program_facts.Waited():
            return ["waited", event.seconds]
        case program_facts.ChunkKept():
            return ["heap", "written", event.name, len(event.content), text(event.content)]
        case program_facts.ChunkDropped():
            return ["heap", "freed", event.name, 0]
        case program_facts.SourceLoaded():
            return ["source", event.path, event.chars, event.failed]
        case program_facts.ProgramStarted():
            return ["program", event.language, event.path]
        case program_facts.ProgramHalted():
            return ["halted", text(event.report), event.kind]
        case program_facts.ProgramReturned():
            return ["returned", event.kind, event.size]
        case _:
            return None
