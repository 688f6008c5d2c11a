"""Reactions to a reply that is missing or unusable: a retry, an instruction, or the end of the run.

Rule 1: A temporary failure is retried, six attempts in all. The wait starts at 1 s and doubles, up to 60 s.
Rule 2: A permanent failure ends the run, which can be resumed.
Rule 3: A prompt that is too long for the model pops its frame. If the frame is the root of a plain run, the run ends as
    ``stalled`` with its root open, so that it can be resumed with a larger window.
"""

from __future__ import annotations

from msgspec.structs import replace

from .facts import CallRejected, Event, ModelFailed, ReplyNudged, RunEnded, Stop
from .frames import forced_pop, partial_result, tell
from .guidance import reading
from .guidance.lessons import example_call
from .limits import closing_refusal, ending_tool
from .messages import Text
from .state import Notice, Pending, Reply, Result, State
from .tools import Refusal

ATTEMPTS = 6
LONGEST_WAIT_SECONDS = 60.0
NOT_PERFORMED = "not performed: one call per reply"
_PASSING = ("rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete")


def after_failure(state: State) -> Event | None:
    """Return what the last failure leads to, or None if the request is retried."""
    last = state.failures[-1]
    if last.kind == "window":
        # In a child only the frame is too long, so its parent can continue. A lone root would fail again.
        alone = len(state.stack) == 1 and state.program is None and state.session is None
        return RunEnded("stalled", partial_result(state)) if alone else forced_pop(state, "window")
    if last.kind not in _PASSING or len(state.failures) >= ATTEMPTS:
        return RunEnded("model_error", partial_result(state))
    return None


def wait_seconds(failures: tuple[ModelFailed, ...]) -> float:
    """Return the seconds before the next attempt: the doubling wait, or the provider's own wait if it is longer."""
    if not failures:
        return 0.0
    # Bounded like our own wait: a provider that asks for an hour should not keep a terminal that long.
    requested = failures[-1].retry_after_seconds or 0.0
    return min(LONGEST_WAIT_SECONDS, max(2.0 ** (len(failures) - 1), requested))


CUT_SHORT: dict[Stop, Refusal] = {
    "truncated": Refusal(
        "truncated",
        "Your reply was cut off at the output limit, and none of it was executed.",
        "Make one call with less text.",
    ),
    "refused": Refusal(
        "refused",
        "The provider refused to complete that reply, and none of it was executed.",
        "Try another way, or call pop_frame and say why it cannot be done.",
    ),
}


def unusable(state: State, pending: Pending) -> ReplyNudged | Refusal | None:
    """Return the answer to a reply that is not exactly one complete call, or None if it is."""
    if not pending.calls:
        reply = state.running.turns[-1]
        parts = reply.parts if isinstance(reply, Reply) else ()
        return nudge(
            pending.stop,
            ending_tool(state),
            example_call(state),
            empty=not any(isinstance(part, Text) and part.text.strip() for part in parts),
        )
    if pending.stop in CUT_SHORT:
        return _naming(ending_tool(state), CUT_SHORT[pending.stop])
    if len(pending.calls) > 1 and not pending.together and not performs_first(state):
        return reading.several_calls(state, len(pending.calls))
    return reading.no_room(state, pending)


def performs_first(state: State) -> bool:
    """Return whether the first call of the pending reply is performed and the others are answered ``NOT_PERFORMED``.

    Some servers cannot be limited to one call per reply, and would otherwise be refused forever. Calls that were read
    from text are always handled this way.
    """
    pending = state.pending
    if pending is not None and (pending.first or pending.together):
        return not pending.together  # calls that only read may all be performed
    return state.several > 1 and state.begun.several_calls == "first"


def nudge(stop: Stop, ending: str, example: str, *, empty: bool) -> ReplyNudged:
    """Return the answer to a reply without a call.

    The example only reads. An earlier text named the tool that ends the work, and small models then called it.

    Args:
        ending: The tool that ends a frame.
        example: A call as JSON, or empty if there is no example.
    """
    code, fault = ("empty", "Your reply was empty.") if empty else ("no_call", "Your reply called no tool.")
    suffix = f", for example: {example}" if example else "."
    rule = Refusal(code, f"{fault} Nothing was done.", f"Every reply must be exactly one tool call{suffix}")
    answer = _naming(ending, CUT_SHORT.get(stop, rule))
    return ReplyNudged(answer.code, answer.text)


def _naming(ending: str, refusal: Refusal) -> Refusal:
    """Insert the name of the tool that ends a frame in this run."""
    return replace(refusal, way_out=refusal.way_out.replace("pop_frame", ending))


def without_others(state: State, after: State) -> State:
    """Answer the calls of the pending reply that are not performed."""
    others = state.pending.calls[1:] if state.pending and performs_first(state) else ()
    for call in others:
        after = tell(after, Result(call.id, NOT_PERFORMED, True, after.heap, state.step))
    return after


def with_words(before: Pending | None, after: State) -> State:
    """Return the state with the notices about the calls of a reply, once its last call is answered."""
    if before is None or after.pending is not None:
        return after
    for words in before.words:
        after = tell(after, Notice(words, after.heap))
    return after


def reject(state: State, event: CallRejected) -> State:
    """Return the state after the calls of a reply were refused."""
    pending, closed = state.pending, closing_refusal(state) is not None
    calls = pending.calls if pending else ()
    together = pending is not None and pending.together
    after = state
    for call in calls[:1] if together or performs_first(state) else calls:
        after = tell(after, Result(call.id, event.reason, failed=True, heap=state.heap, step=state.step))
    after = without_others(state, after)
    frame = replace(
        after.running,
        refused=after.running.refused + (closed and not (pending and pending.refused)),
        unfit=after.running.unfit + (event.code == "misfit"),
    )
    idle = state.idle + 1 if pending and pending.stop in CUT_SHORT else 0
    waiting = reading.remaining(pending, event.reason, refused=closed)
    return with_words(pending, replace(after, stack=(*after.stack[:-1], frame), pending=waiting, idle=idle))
