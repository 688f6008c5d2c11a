"""What a reply without one usable call is answered with."""

from __future__ import annotations

from .events import CallRejected, ReplyNudged, Stop
from .messages import Text
from .state import Pending, Reply, Turn

CUT_SHORT: dict[Stop, tuple[str, str]] = {
    "truncated": (
        "truncated",
        "Your reply was cut off at the output limit, and nothing of it was executed. Make one call with less text.",
    ),
    "refused": (
        "refused",
        "The provider refused to complete that reply, and nothing of it was executed. Go on another way, or call "
        "pop_frame and say why it cannot be done.",
    ),
}


def unusable(pending: Pending, reply: Turn, ending: str) -> ReplyNudged | CallRejected | None:
    """The answer to a reply with no call, several, or one that was cut off; None where it holds one whole call.

    Args:
        ending: The name of the tool that ends a frame.

    """
    if not pending.calls:
        parts = reply.parts if isinstance(reply, Reply) else ()
        return nudge(
            pending.stop,
            ending,
            empty=not any(isinstance(part, Text) and part.text.strip() for part in parts),
        )
    if pending.stop in CUT_SHORT:
        code, reason = CUT_SHORT[pending.stop]
        return CallRejected(code, reason.replace("pop_frame", ending))
    if len(pending.calls) > 1:
        return CallRejected(
            "several_calls",
            f"not executed: one call a reply, and this reply had {len(pending.calls)}; call the first one alone",
        )
    return None


def nudge(stop: Stop, ending: str, *, empty: bool) -> ReplyNudged:
    code, said = ("empty", "Your reply was empty.") if empty else ("no_call", "No tool was called.")
    rule = f"{said} Every reply makes exactly one tool call; if the work is done, call pop_frame."
    code, told = CUT_SHORT.get(stop, (code, rule))
    return ReplyNudged(code, told.replace("pop_frame", ending))
