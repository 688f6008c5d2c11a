"""What a reply without one usable call is answered with."""

from __future__ import annotations

from .events import CallRejected, ReplyNudged, Stop
from .state import Pending

CUT_SHORT: dict[Stop, tuple[str, str]] = {
    "truncated": (
        "truncated",
        "Your reply was cut off at the output limit before it called a tool. Make one call, with less text before it.",
    ),
    "refused": (
        "refused",
        "The provider refused to complete that reply. Go on another way, or pop and say why it cannot be done.",
    ),
}


def unusable(pending: Pending) -> ReplyNudged | CallRejected | None:
    """The answer to a reply with no call, several, or one that was cut off; None where it holds one whole call."""
    if not pending.calls:
        return nudge(pending.stop)
    if pending.stop in CUT_SHORT:
        return CallRejected(CUT_SHORT[pending.stop][0], f"not executed: {CUT_SHORT[pending.stop][1]}")
    if len(pending.calls) > 1:
        return CallRejected(
            "several_calls",
            f"not executed: one call a reply, and this reply had {len(pending.calls)}; call the first one alone",
        )
    return None


def nudge(stop: Stop) -> ReplyNudged:
    code, text = CUT_SHORT.get(
        stop,
        (
            "no_call",
            "No tool was called. Every reply makes exactly one tool call; if the work is done, call pop_frame.",
        ),
    )
    return ReplyNudged(code, text)
