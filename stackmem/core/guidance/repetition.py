"""A model that goes round in a circle: the same call with the same result, or a text copied from its own prompt.

Rule 1: three equal calls in a row with equal results bring a notice; the fourth and later ones are refused.
Rule 2: after three refusals of that kind the frame ends as ``stalled``.
Rule 3: a result that copies the prompt, and a push that hands on the whole objective, are refused.

All of it holds in runs whose start says so (``RunStarted.circles``): those of a provider's or a local model. A script
and a person are taken at their word.
"""

from __future__ import annotations

from msgspec import UNSET, json

from stackmem.core.facts import NoticeGiven
from stackmem.core.messages import ToolCall
from stackmem.core.state import Reply, Result, State
from stackmem.core.tools import PopCall, PushFrame, Refusal, tool_name

NOTICED_AFTER = 3
STALLED_AFTER = NOTICED_AFTER + 3
_REFUSED = "this call was made"
_LEAST_COPIED_CHARS = 24


def notice(state: State) -> NoticeGiven | None:
    """What the running frame reads once after the third equal call."""
    if "repeated" in state.running.told or _repeats(state) < NOTICED_AFTER:
        return None
    return NoticeGiven(
        "repeated",
        f"You made the same call {NOTICED_AFTER} times in a row with the same result. It will not change. "
        "Use the result that you have, and make a different call now.",
    )


def refusal(state: State) -> Refusal | None:
    """Why the pending call is not made again, if it is one too many."""
    count = _repeats(state)
    if count <= NOTICED_AFTER:
        return None
    return Refusal(
        "repeated",
        f"{_REFUSED} {NOTICED_AFTER} times with the same result, and it was not made again",
        "make a different call: read another file, change a file, or run a command",
    )


def is_stuck(state: State) -> bool:
    return _repeats(state) >= STALLED_AFTER


def _repeats(state: State) -> int:
    """How many times in a row the running frame's last call was made with the same result."""
    if state.begun.circles is UNSET:
        return 0
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


def copied_result(state: State, call: PopCall) -> str:
    """What is wrong with a result that only repeats what the model was shown; empty if it says something."""
    if state.begun.circles is UNSET:
        return ""
    ending = next((tool for tool in state.begun.tools if tool.name == tool_name(call)), None)
    if ending is not None and _copies(call.result, f"{ending.description} {ending.schema}"):
        return "result repeats the description of the tool; say what was done and what is open"
    if _copies(call.result, state.begun.system):
        return "result repeats the system prompt; say what was done and what is open"
    return ""


def handed_on(state: State, call: PushFrame) -> str:
    """What is wrong with a push that gives the whole objective of the running frame to a child."""
    own = state.running.task or state.running.registers.intent
    if state.begun.circles is UNSET:
        return ""
    if call.objective and _plain(call.objective) in {_plain(own), _plain(state.running.registers.intent)}:
        return "objective repeats this frame's own; do the work here, or push a part of it"
    return ""


def _copies(text: str, source: str) -> bool:
    return len(_plain(text)) >= _LEAST_COPIED_CHARS and _plain(text) in _plain(source)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().strip(". ")
