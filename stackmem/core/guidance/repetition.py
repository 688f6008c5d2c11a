"""Stops a model that repeats itself: the same call with the same result, or text copied from its own prompt.

Rule 1: After three equal calls in a row with equal results the model gets a notice; after six they are refused.
Rule 2: After three such refusals the frame ends as ``stalled``.
Rule 3: A result that copies the prompt is refused, and so is a push that passes on the whole objective.

This applies only if the run's start says so (``RunStarted.circles``), as it does for models of a provider and local
models. Scripts and users may repeat themselves.
"""

from __future__ import annotations

from msgspec import UNSET, json

from stackmem.core.facts import NoticeGiven
from stackmem.core.messages import ToolCall
from stackmem.core.state import Reply, Result, State
from stackmem.core.tools import PopCall, PushFrame, Refusal, tool_name

from . import reading

NOTICED_AFTER = 3
REFUSED_AFTER = 6
STALLED_AFTER = REFUSED_AFTER + 3
_REFUSED = "this call was made"  # begins our own refusals, which do not count as results
_MIN_COPIED_CHARS = 24  # shorter results may occur in the prompt by chance


def notice(state: State, repeats: int) -> NoticeGiven | None:
    """Return the notice that the running frame reads once, after the third equal call."""
    if repeats < NOTICED_AFTER or "repeated" in state.running.told:
        return None
    return NoticeGiven(
        "repeated",
        f"You made the same call {NOTICED_AFTER} times in a row with the same result. It will not change. "
        "Use the result that you have, and make a different call now.",
    )


def refusal(state: State) -> Refusal | None:
    """Return the refusal of the pending call if it repeats the last ones too often."""
    if repeats(state) <= REFUSED_AFTER:
        return None
    return Refusal(
        "repeated",
        f"{_REFUSED} {REFUSED_AFTER} times with the same result, and it was not made again",
        "make a different call: read another file, change a file, or run a command",
    )


def repeats(state: State) -> int:
    """Count how many times in a row the running frame made its last call with the same result."""
    if state.begun.circles is UNSET:
        return 0
    if reading.allows(state.begun):
        return _repeated_replies(state)
    frame = state.running
    last: list[tuple[str, bytes, str | None]] | None = None
    count, results = 0, set[str]()
    for turn in reversed(frame.turns):
        if isinstance(turn, Result):
            if not turn.text.startswith(_REFUSED):
                results.add(turn.text)
        elif isinstance(turn, Reply):
            calls = [
                (part.name, json.encode(part.arguments), part.malformed)
                for part in turn.parts
                if isinstance(part, ToolCall)
            ]
            if not calls or (last is not None and calls != last):
                break
            if len(results) > 1:
                break
            last, count = calls, count + 1
    return count


def _repeated_replies(state: State) -> int:
    """Count as ``repeats`` does, if a reply may have several calls that are all answered."""
    last: list[tuple[str, bytes, str | None]] | None = None
    count, seen, answers = 0, set[tuple[str, ...]](), list[str]()
    unanswered = state.pending is not None
    for turn in reversed(state.running.turns):
        if isinstance(turn, Result):
            answers.append(turn.text)
        elif isinstance(turn, Reply):
            calls = [
                (part.name, json.encode(part.arguments), part.malformed)
                for part in turn.parts
                if isinstance(part, ToolCall)
            ]
            if not unanswered and not all(text.startswith(_REFUSED) for text in answers):
                seen.add(tuple(answers))
            if not calls or (last is not None and calls != last) or len(seen) > 1:
                break
            last, count, answers, unanswered = calls, count + 1, [], False
    return count


def copied_result(state: State, call: PopCall) -> str:
    """Return why a result only repeats what the model was given. Empty if it says something new."""
    if state.begun.circles is UNSET:
        return ""
    ending = next((tool for tool in state.begun.tools if tool.name == tool_name(call)), None)
    if ending is not None and _copies(call.result, f"{ending.description} {ending.schema}"):
        return "result repeats the description of the tool; say what was done and what is open"
    if _copies(call.result, state.begun.system):
        return "result repeats the system prompt; say what was done and what is open"
    return ""


def handed_on(state: State, call: PushFrame) -> str:
    """Return why a push is refused that passes the whole objective of the running frame to a child."""
    own = state.running.task or state.running.registers.intent
    if state.begun.circles is UNSET:
        return ""
    if call.objective and _plain(call.objective) in {_plain(own), _plain(state.running.registers.intent)}:
        return "objective repeats this frame's own; do the work here, or push a part of it"
    return ""


def _copies(text: str, source: str) -> bool:
    return len(_plain(text)) >= _MIN_COPIED_CHARS and _plain(text) in _plain(source)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().strip(". ")
