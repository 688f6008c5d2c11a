"""The conversation of an agent, as a program that it called reads it."""

from __future__ import annotations

from msgspec import json
from msgspec.structs import replace

from stackmem.core.messages import ReplyPart, Text, ToolCall
from stackmem.core.state import Notice, Reply, Result, State

from .operations import HistoryStep


def caller_history(state: State, base: int) -> tuple[HistoryStep, ...]:
    """Return the conversation of the agent that called the program whose frame is number ``base`` of the stack.

    The last step contains that call and has no answer yet. A program that no agent called has no history.
    """
    if not base:
        return ()
    steps: list[HistoryStep] = []
    for turn in state.stack[base - 1].turns:
        match turn:
            case Reply():
                parts = (part.text if isinstance(part, Text) else _spoken_call(part) for part in turn.parts)
                steps.append(HistoryStep(turn.step, "\n".join(filter(None, parts)), ""))
            case Result() | Notice() if steps:
                last = steps[-1]
                steps[-1] = replace(last, results="\n".join(filter(None, (last.results, turn.text))))
            case _:
                pass
    return tuple(steps)


def _spoken_call(part: ReplyPart) -> str:
    if not isinstance(part, ToolCall):
        return ""
    arguments = part.malformed if part.malformed is not None else json.encode(part.arguments).decode()
    return f"{part.name} {arguments}"
