"""Read a session of pi: JSON Lines with a line about the session, then a tree of entries.

The branch that ends with the last entry is read. Entries of other branches, which the user left, are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import Stop
from stackmem.core.messages import ReplyPart, Text, ToolCall, Usage

from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedText,
    json_lines,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]
_STOPS: dict[str, Stop] = {"toolUse": "call", "stop": "end", "length": "truncated", "error": "end", "aborted": "end"}


class _PiCost(Struct, frozen=True):
    total: float = 0.0


class _PiUsage(Struct, frozen=True, rename="camel"):
    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    cost: _PiCost | None = None


class _PiMessage(Struct, frozen=True, rename="camel"):
    role: str
    content: Any = None
    model: str = ""
    usage: _PiUsage | None = None
    stop_reason: str = ""
    tool_call_id: str = ""
    is_error: bool = False
    timestamp: float | None = None
    command: str = ""
    output: str = ""


def is_pi(value: Any) -> bool:
    """Return whether a JSON value is the first line of a session."""
    return isinstance(value, dict) and value.get("type") == "session" and "cwd" in value and "id" in value


def read_pi(text: str, source: str) -> RecordedSession:
    """Read the last branch of the session."""
    session = RecordedSession("pi", "session", name="pi", turns=[], left_out=[])
    entries: list[tuple[str, Json]] = []
    for location, value in json_lines(text, source, session.left_out):
        if is_pi(value) and not entries:
            session.id, session.workspace = str(value["id"]), str(value["cwd"])
            session.model = words(value.get("modelId"))
        elif isinstance(value, dict):
            entries.append((location, value))
    branch = _branch(entries)
    others = Counter[str]()
    for location, entry in branch:
        if entry.get("type") == "message" and isinstance(entry.get("message"), dict):
            _add(session, shaped(entry["message"], _PiMessage, location))
        else:
            others[str(entry.get("type"))] += 1
    if not any(isinstance(turn, RecordedReply) for turn in session.turns):
        raise UsageError(f"{source} does not contain a reply in a session of pi; give the session's .jsonl file")
    remaining = len(entries) - len(branch)
    if remaining:
        session.left_out.append(f"{remaining:,} entries of branches that the user left (rewound)")
    session.left_out += [f"entries of the kind {kind!r}: {count}" for kind, count in sorted(others.items())]
    return session


def _branch(entries: list[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Return the entries from the root to the last one; all of them if they do not name their parents."""
    by_id = {entry["id"]: (location, entry) for location, entry in entries if isinstance(entry.get("id"), str)}
    if not entries or not isinstance(entries[-1][1].get("parentId"), str):
        return entries
    path: list[tuple[str, Json]] = [entries[-1]]
    seen: set[str] = set()
    while isinstance(parent := path[-1][1].get("parentId"), str) and parent in by_id and parent not in seen:
        seen.add(parent)
        path.append(by_id[parent])
    return path[::-1]


def _add(session: RecordedSession, message: _PiMessage) -> None:
    at = message.timestamp / 1_000 if message.timestamp is not None else None
    match message.role:
        case "assistant":
            parts = tuple(part for block in _blocks(message.content) for part in _parts(block, session))
            session.model = session.model or message.model
            calls = any(isinstance(part, ToolCall) for part in parts)
            reply = RecordedReply(parts, at, model=message.model, answers=[])
            reply.stop = _STOPS.get(message.stop_reason, "call" if calls else "end")
            if (used := message.usage) is not None:
                reply.usage = Usage(used.input, used.cache_read, used.cache_write, 0, used.output)
                reply.usd = used.cost.total if used.cost is not None else None
            session.turns.append(reply)
        case "toolResult":
            text = words(message.content, session.lost)
            caller = _caller(session, message.tool_call_id)
            if caller is None:
                session.turns.append(RecordedText(text, at))
            else:
                caller.answers.append(RecordedResult(message.tool_call_id, text, message.is_error, at))
        case "bashExecution":
            session.turns.append(RecordedText(f"$ {message.command}\n{message.output}", at))
        case _:
            text = words(message.content, session.lost)
            if not session.task and not session.turns:
                session.task, session.began = text, at
            elif text:
                session.turns.append(RecordedText(text, at))


def _caller(session: RecordedSession, identity: str) -> RecordedReply | None:
    """Return the reply whose call has this id and no answer yet."""
    for turn in reversed(session.turns):
        if isinstance(turn, RecordedReply) and any(call.id == identity for call in turn.calls):
            return None if any(answer.call_id == identity for answer in turn.answers) else turn
    return None


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _parts(block: Any, session: RecordedSession) -> tuple[ReplyPart, ...]:
    match block:
        case {"type": "toolCall", "id": str(identity), "name": str(name)}:
            return (ToolCall(identity, name, block.get("arguments")),)
        case {"type": "thinking", "thinking": str(thought)}:
            return thinking(thought)
        case _:
            text = words(block, session.lost)
            return (Text(text),) if text else ()
