"""Read a session of Goose: JSON Lines with a line about the session, or the object that ``session export`` writes.

Goose records tokens only for a whole session, so replies have none.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import Stop
from stackmem.core.messages import ReplyPart, Text, ToolCall

from .session import (
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedText,
    json_lines,
    load,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]
_HEAD = frozenset({"message_count", "description", "total_tokens", "conversation", "accumulated_total_tokens"})


class _GooseMessage(Struct, frozen=True):
    role: str
    content: list[Json] = []
    created: float | None = None


def is_goose(value: Any) -> bool:
    """Return whether a JSON value is the line about a session, or an exported session."""
    return isinstance(value, dict) and "working_dir" in value and bool(_HEAD & value.keys())


def read_goose(text: str, source: str) -> RecordedSession:
    """Read the session."""
    session = RecordedSession(
        "goose", "session", name="goose", turns=[], left_out=["tokens per reply: goose records those of a session"]
    )
    for location, message in _messages(text, source, session):
        _add(session, shaped(message, _GooseMessage, location))
    if not any(isinstance(turn, RecordedReply) for turn in session.turns):
        raise UsageError(f"{source} does not contain a reply in a session of goose; give another file")
    return session


def _messages(text: str, source: str, session: RecordedSession) -> list[tuple[str, Json]]:
    """Return the messages with their places, and store the session's data."""
    try:
        document = load(text, source)
    except UsageError:
        document = None
    listed = document.get("conversation") if isinstance(document, dict) else None
    if isinstance(listed, list) and isinstance(document, dict):
        values = [(source, document), *((f"{source}, message {number}", item) for number, item in enumerate(listed, 1))]
    else:
        values = list(json_lines(text, source, session.left_out))
    messages: list[tuple[str, Json]] = []
    for location, value in values:
        if is_goose(value):
            session.id = words(value.get("id")) or session.id
            session.workspace = words(value.get("working_dir"))
            model = value.get("model_config")
            session.model = words(model.get("model_name")) if isinstance(model, dict) else ""
        elif isinstance(value, dict) and "role" in value:
            messages.append((location, value))
    return messages


def _add(session: RecordedSession, message: _GooseMessage) -> None:
    if message.role == "assistant":
        parts = tuple(part for block in message.content for part in _parts(block, session))
        stop: Stop = "call" if any(isinstance(part, ToolCall) for part in parts) else "end"
        if parts:
            session.turns.append(RecordedReply(parts, message.created, stop, model=session.model, answers=[]))
        return
    rest = [block for block in message.content if not _answer(session, block, message.created)]
    text = words(rest, session.lost) if rest else ""
    if text and not session.task and not session.turns:
        session.task, session.began = text, message.created
    elif text:
        session.turns.append(RecordedText(text, message.created))


def _answer(session: RecordedSession, block: Json, at: float | None) -> bool:
    """Add a response to the reply that called for it. Returns whether the block is a response with a caller."""
    identity, result = block.get("id"), block.get("toolResult")
    if block.get("type") != "toolResponse" or not isinstance(result, dict):
        return False
    value = result.get("value")
    content = value.get("content") if isinstance(value, dict) else value
    failed = result.get("status") == "error" or (isinstance(value, dict) and value.get("isError") is True)
    text = words(result.get("error")) if result.get("status") == "error" else words(content, session.lost)
    for turn in reversed(session.turns):
        if isinstance(turn, RecordedReply) and any(call.id == identity for call in turn.calls):
            turn.answers.append(RecordedResult(str(identity), text, failed, at))
            return True
    return False


def _parts(block: Json, session: RecordedSession) -> tuple[ReplyPart, ...]:
    match block:
        case {"type": "toolRequest", "id": str(identity), "toolCall": dict(call)}:
            value = call.get("value")
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                return (ToolCall(identity, value["name"], value.get("arguments")),)
            return (Text(f"[toolRequest] {words(call.get('error'))}"),)
        case {"type": "thinking", "thinking": str(thought)}:
            return thinking(thought)
        case _:
            text = words(block, session.lost)
            return (Text(text),) if text else ()
