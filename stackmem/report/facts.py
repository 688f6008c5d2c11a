"""Events as the page tells them: a kind, and what there is to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stackmem.core.facts import (
    CallAnswered,
    CallRejected,
    ChecksReturned,
    ChunkAllocated,
    ChunkFreed,
    ChunkRead,
    ChunkWritten,
    ContextCompacted,
    Event,
    FramePopped,
    FramePushed,
    ModelFailed,
    NoticeGiven,
    ReplyNudged,
    RunEnded,
    RunForked,
    RunResumed,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.state import Result

from .steps import Fact
from .texts import Ref, Texts


def fact_of(event: Event, texts: Texts, frames: Mapping[str, int], told: Result | None) -> Fact | None:
    """What the page tells of an event beside the steps themselves, if anything.

    Args:
        frames: The index of each frame, by id.
        told: The result that the running frame was given last.

    """
    ref = texts.ref
    match event:
        case ToolReturned():
            return ["result", ref(event.text), int(event.failed), event.exit_code]
        case VerifyReturned():
            return ["verify", ref(event.text), event.outcome]
        case ContextCompacted():
            return ["compacted", ref(event.text), event.up_to_step]
        case CallRejected():
            return ["rejected", ref(event.reason), event.code]
        case ReplyNudged() | NoticeGiven():
            return ["notice", ref(event.text), event.code]
        case FramePushed():
            return ["pushed", frames.get(event.frame, -1)]
        case FramePopped():
            return ["popped", frames.get(event.frame, -1), event.forced, event.verified]
        case ModelFailed():
            return ["failed", event.kind, ref(event.detail)]
        case ChecksReturned():
            rewards = ", ".join(f"{name} {reward:g}" for name, reward in event.rewards.items())
            return ["checks", ref("\n".join(filter(None, (rewards, event.error, event.text))))]
        case RunResumed():
            return ["resumed", event.version]
        case RunForked():
            return ["forked", event.parent, event.at]
        case RunEnded():
            return ["ended", event.ending]
        case _:
            return _of_memory(event, ref, told)


def _of_memory(event: Event, ref: Callable[[str], Ref], told: Result | None) -> Fact | None:
    match event:
        case ChunkRead():
            return ["heap", "read", event.name, event.chars, ref(told.text) if told else None]
        case ChunkAllocated() | ChunkWritten() | ChunkFreed():
            return ["heap", type(event).__name__.removeprefix("Chunk").lower(), event.name, event.chars]
        case CallAnswered():
            return ["result", ref(told.text), 0, None] if told else None
        case _:
            return None
