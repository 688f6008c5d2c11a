"""The lines of parallel frames in an editor: a tool call for each frame, whose title has its state, steps and time."""

from __future__ import annotations

from stackmem.cli.screen.frames import FrameLine, FrameStatus
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.text import mark_cut, quantity

from .updates import Update

_STATUSES: dict[FrameStatus, str] = {
    "running": "in_progress", "waiting": "pending", "done": "completed", "merged": "completed", "ended": "failed",
    "conflict": "failed",
}  # fmt: skip
_TITLE_CHARS = 200


def frame_begins(line: FrameLine, run: str, intent: str) -> Update:
    """Announce the line of a frame. ``run`` distinguishes the runs of a conversation."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": _id(run, line.frame),
        "title": mark_cut(" ".join(f"[{line.name}] {intent}".split()), _TITLE_CHARS),
        "kind": "think",
        "status": "in_progress",
    }


def frame_goes_on(line: FrameLine, run: str, now: float) -> Update:
    """Return the line of a frame with its present state."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": _id(run, line.frame),
        "title": mark_cut(line.sentence(now), _TITLE_CHARS),
        "status": _STATUSES[line.status],
    }


def frame_returned(event: FrameReturned, name: str, run: str) -> Update:
    """Return the line of a frame of an earlier conversation, which has ended."""
    ending = "done" if event.ending == "popped" else event.ending
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": _id(run, event.frame),
        "title": mark_cut(f"[{name}] {ending}, {quantity(event.steps, 'step')}", _TITLE_CHARS),
        "kind": "think",
        "status": "completed" if event.ending == "popped" else "failed",
    }


def _id(run: str, frame: str) -> str:
    return f"{run}-{frame}"
