"""What a reply without one usable call is answered with."""

from __future__ import annotations

from .facts import CallRejected, ReplyNudged, Stop
from .limits import ending_tool
from .messages import Text
from .state import Pending, Reply, State

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


def unusable(state: State, pending: Pending) -> ReplyNudged | CallRejected | None:
    """The answer to a reply with no call, several, or one that was cut off; None where it holds one whole call."""
    if not pending.calls:
        reply = state.running.turns[-1]
        parts = reply.parts if isinstance(reply, Reply) else ()
        return nudge(
            pending.stop,
            ending_tool(state),
            empty=not any(isinstance(part, Text) and part.text.strip() for part in parts),
        )
    if pending.stop in CUT_SHORT:
        code, reason = CUT_SHORT[pending.stop]
        return CallRejected(code, reason.replace("pop_frame", ending_tool(state)))
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
