"""Reads chats of Gemini CLI: one JSON object with its messages, or JSON Lines of which the first tells of the session.

Cached tokens are part of the input; thoughts are counted beside the output and billed with it.

Source: google-gemini/gemini-cli, its chat recording.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct

from stackmem.core.messages import ToolCall, Usage
from stackmem.errors import UsageError

from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedText,
    load,
    plain,
    seconds,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]


class _GeminiTokens(Struct, frozen=True):
    input: Count = 0
    output: Count = 0
    cached: Count = 0
    thoughts: Count = 0


class _GeminiCall(Struct, frozen=True):
    name: str
    id: str = ""
    args: Any = None
    result: Any = None
    status: str = ""
    timestamp: str | None = None


class _GeminiMessage(Struct, frozen=True):
    type: str
    id: str = ""
    timestamp: str | None = None
    content: Any = None
    thoughts: list[Json] | None = None
    toolCalls: list[_GeminiCall] | None = None  # noqa: N815 - as the file spells it
    tokens: _GeminiTokens | None = None
    model: str | None = None


def is_gemini(value: Any) -> bool:
    return isinstance(value, dict) and "sessionId" in value and "projectHash" in value


def read_gemini(text: str, where: str) -> RecordedSession:
    """The chat as a session; of a message that is told twice the last telling counts.

    Raises:
        UsageError: It is none of the format; the line is named.
    """
    try:
        head = load(text, where)
        told = head.get("messages") if is_gemini(head) else None
        messages = shaped(told, list[_GeminiMessage], where)
    except UsageError:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        values = [load(line, f"{where}, line {number}") for number, line in lines]
        head = values[0] if values and is_gemini(values[0]) else {}
        messages = [shaped(one, _GeminiMessage, where) for one in values[1:] if isinstance(one, dict) and "type" in one]
    if not head:
        raise UsageError(f"{where} is no chat of Gemini CLI; give the file as its tool wrote it") from None
    session = RecordedSession("gemini-cli", words(head.get("sessionId")), turns=[], left_out=[])
    others: Counter[str] = Counter()
    unique = {message.id or str(place): message for place, message in enumerate(messages)}
    for number, message in enumerate(unique.values(), 1):
        _add(session, message, others, f"{where}, message {number}")
    session.left_out += [f"{count:,} messages of kind {kind}" for kind, count in sorted(others.items())]
    return session


def _add(session: RecordedSession, message: _GeminiMessage, others: Counter[str], where: str) -> None:
    text, at = words(message.content), seconds(message.timestamp, where)
    match message.type:
        case "gemini":
            session.model = session.model or message.model or ""
            session.turns.append(_said(message, text, at, where, len(session.turns)))
        case "user" if not session.turns and not session.task:
            session.task, session.began = text, at
        case "user":
            session.turns.append(RecordedText(text, at))
        case kind:
            others[kind] += 1


def _said(message: _GeminiMessage, text: str, at: float | None, where: str, number: int) -> RecordedReply:
    calls, answers = [], []
    for place, call in enumerate(message.toolCalls or ()):
        name = call.id or f"call_{number}_{place}"
        calls.append(ToolCall(name, call.name, call.args))
        if call.result is not None or call.status:
            failed = call.status in ("error", "cancelled")
            answers.append(RecordedResult(name, _result(call.result), failed, seconds(call.timestamp, where)))
    thoughts = "\n".join(words(one.get("description") or one.get("subject")) for one in message.thoughts or ())
    used = message.tokens or _GeminiTokens()
    read = min(used.cached, used.input)
    return RecordedReply(
        parts=(*thinking(thoughts), *plain(text), *calls),
        at=at,
        stop="call" if calls else "end",
        usage=Usage(used.input - read, read, 0, 0, used.output + used.thoughts),
        model=message.model or "",
        answers=answers,
    )


def _result(found: Any) -> str:
    """The text of a result: what its function's response says, whatever stands around it."""
    texts = []
    for one in found if isinstance(found, list) else [found]:
        response = one.get("functionResponse") if isinstance(one, dict) else None
        inner = response.get("response") if isinstance(response, dict) else one
        said = inner.get("output", inner.get("error")) if isinstance(inner, dict) else None
        texts.append(words(said if said is not None else inner))
    return "\n".join(filter(None, texts))
