"""Read chats of Gemini CLI: one JSON object with its messages, or JSON Lines with one line about the session.

Cached tokens are part of the input. Thoughts are counted separately from the output and billed with it. Two more kinds
of files are read, which do not record usage per reply: those of ``/chat save``, and the output of ``--output-format
stream-json``.

Source: google-gemini/gemini-cli, its chat recording.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolCall, Usage
from stackmem.core.text import quantity
from stackmem.foreign.files import read_regular

from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedText,
    json_lines,
    load,
    plain,
    seconds,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]
_SESSION_ID = re.compile(r'"sessionId":\s*"([A-Za-z0-9_-]{8,80})"')
_HEAD_CHARS = 4_000
MAX_CHAT_BYTES = 1 << 30


class _GeminiTokens(Struct, frozen=True):
    input: Count = 0
    output: Count = 0
    cached: Count = 0
    thoughts: Count = 0


class _GeminiCall(Struct):
    name: str
    id: str = ""
    args: Any = None
    result: Any = None
    status: str = ""
    timestamp: str | None = None


class _GeminiMessage(Struct):
    type: str
    id: str = ""
    timestamp: str | None = None
    content: Any = None
    thoughts: list[Json] = []
    toolCalls: list[_GeminiCall] = []  # noqa: N815 - the name in the file
    tokens: _GeminiTokens | None = None
    model: str | None = None


class _Content(Struct, frozen=True):
    role: str
    parts: list[Json]


class _Printed(Struct, frozen=True):
    type: str
    timestamp: str | None = None
    session_id: str = ""
    model: str = ""
    role: str = ""
    content: Any = None
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    output: Any = None
    error: Any = None
    status: str = ""
    stats: Json = {}


def is_gemini(value: Any) -> bool:
    """Return whether a JSON value is a chat, the line about its session, or a list of contents."""
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, dict):
        return first.get("role") in ("user", "model") and isinstance(first.get("parts"), list)
    if not isinstance(value, dict):
        return False
    if value.get("type") == "init":
        return "session_id" in value and "model" in value
    return "sessionId" in value and ("projectHash" in value or isinstance(value.get("messages"), list))


def gemini_agents(path: Path | None, text: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the chats of a session's sub-agents, which are in a folder with the session's id."""
    match = _SESSION_ID.search(text[:_HEAD_CHARS])
    folder = path.parent / match[1] if path is not None and match else None
    for other in sorted(folder.glob("*.jsonl")) if folder is not None else ():
        yield str(other), read_regular(other, MAX_CHAT_BYTES).decode("utf-8-sig", "replace")


def read_gemini(text: str, location: str, agents: Iterable[tuple[str, str]] = ()) -> RecordedSession:
    """Read the chat as a session. If a message appears twice, the last version counts.

    ``agents`` are the names and texts of the chats of its sub-agents. Raise UsageError if a line does not match the
    format. The message names it.
    """
    session = _read_chat(text, location)
    waiting = [_read_chat(inner, name) for name, inner in agents]
    for chat in (session, *waiting[:]):
        _join(chat, waiting)
    if waiting:
        session.left_out.append(f"{quantity(len(waiting), 'sub-agent')} whose call is unknown")
    return session


def _join(session: RecordedSession, waiting: list[RecordedSession]) -> None:
    """Attach each sub-agent to the call whose prompt is its task."""
    for turn in (turn for turn in session.turns if isinstance(turn, RecordedReply)):
        for call in turn.calls:
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            answer = next((each for each in turn.answers if each.call_id == call.id and each.child is None), None)
            child = next((chat for chat in waiting if chat.task and chat.task in map(str, arguments.values())), None)
            if answer is not None and child is not None:
                waiting.remove(child)
                answer.child = child


def _read_chat(text: str, location: str) -> RecordedSession:
    session, others = RecordedSession("gemini-cli", "chat", turns=[], left_out=[]), Counter[str]()
    messages = _messages(text, location, session)
    unique = {message.id or str(position): message for position, message in enumerate(messages)}
    for number, message in enumerate(unique.values(), 1):
        _add(session, message, others, f"{location}, message {number}")
    session.left_out += [f"{count:,} messages of kind {kind}" for kind, count in sorted(others.items())]
    return session


def _messages(text: str, source: str, session: RecordedSession) -> list[_GeminiMessage]:
    """Return the messages of any kind of file, and store session data in ``session``."""
    try:
        document = load(text, source)
    except UsageError:
        document = None
    if is_gemini(document) and isinstance(document, list):
        return _contents(shaped(document, list[_Content], source), session)
    if is_gemini(document) and "messages" in document:
        session.id = words(document.get("sessionId")) or session.id
        return shaped(document["messages"], list[_GeminiMessage], source)
    lines = list(json_lines(text, source, session.left_out))
    head = next((value for _, value in lines if is_gemini(value)), None)
    if head is None:
        raise UsageError(f"{source} is not a chat of Gemini CLI; give the original file")
    if head.get("type") == "init":
        return _stream(lines, session)
    session.id = words(head.get("sessionId")) or session.id
    return [
        shaped(value, _GeminiMessage, location)
        for location, value in lines
        if isinstance(value, dict) and "type" in value and value is not head
    ]


def _contents(contents: list[_Content], session: RecordedSession) -> list[_GeminiMessage]:
    """Convert a list of contents to messages. A response without an id answers the first pending call of its name."""
    messages: list[_GeminiMessage] = []
    waiting: list[_GeminiCall] = []
    for content in contents:
        message = _GeminiMessage("gemini" if content.role == "model" else "user", content=[], thoughts=[], toolCalls=[])
        for part in content.parts:
            match part:
                case {"functionCall": {"name": str(name), **more}}:
                    message.toolCalls.append(_GeminiCall(name, words(more.get("id")), more.get("args")))
                case {"functionResponse": {"name": str(name), **more}} if call := _waiting_call(
                    waiting, name, more.get("id")
                ):
                    waiting.remove(call)
                    call.result, call.status = more.get("response"), "success"
                case {"functionResponse": response}:
                    message.content.append(_result(response))
                case {"text": str(text), "thought": True}:
                    message.thoughts.append({"description": text})
                case {"text": str(text)}:
                    message.content.append(text)
                case _:
                    message.content.append({"type": next(iter(part), "part")})
        waiting += message.toolCalls
        if message.type == "gemini" or message.content:
            messages.append(message)
    session.left_out.append("times and tokens: a list of contents has none")
    return messages


def _waiting_call(waiting: list[_GeminiCall], name: str, call_id: object) -> _GeminiCall | None:
    alike = (call for call in waiting if call.name == name and call_id in (None, "", call.id))
    return next(alike, None)


def _stream(lines: list[tuple[str, Any]], session: RecordedSession) -> list[_GeminiMessage]:
    """Convert printed events: a reply's text comes in pieces, and its calls are separate events."""
    messages: list[_GeminiMessage] = []
    calls: dict[str, _GeminiCall] = {}
    for location, value in lines:
        line = shaped(value, _Printed, location)
        match line.type:
            case "init":
                session.id, session.model = line.session_id, line.model or session.model
            case "message" if line.role == "user":
                messages.append(_GeminiMessage("user", timestamp=line.timestamp, content=line.content))
            case "message":
                reply = _printed(messages, line, session.model)
                reply.content = words(reply.content) + words(line.content)
            case "tool_use":
                calls[line.tool_id] = call = _GeminiCall(line.tool_name, line.tool_id, line.parameters)
                _printed(messages, line, session.model).toolCalls.append(call)
            case "tool_result" if line.tool_id in calls:
                call, error = calls[line.tool_id], line.error.get("message") if isinstance(line.error, dict) else None
                call.result, call.status, call.timestamp = line.output or words(error), line.status, line.timestamp
            case "result":
                used = ", ".join(f"{name} {count:,}" for name, count in line.stats.items() if isinstance(count, int))
                session.left_out.append(f"usage in total only: {used or 'none'}")
                session.finished = line.status == "success"
            case kind:
                messages.append(_GeminiMessage(kind))
    return messages


def _printed(messages: list[_GeminiMessage], line: _Printed, model: str) -> _GeminiMessage:
    """Return the reply being printed. A new one starts after a user's message or a result."""
    last = messages[-1] if messages else None
    if last is None or last.type != "gemini" or any(call.status for call in last.toolCalls):
        last = _GeminiMessage("gemini", timestamp=line.timestamp, model=model)
        messages.append(last)
    return last


def _add(session: RecordedSession, message: _GeminiMessage, others: Counter[str], location: str) -> None:
    text, at = words(message.content, session.lost), seconds(message.timestamp, location)
    match message.type:
        case "gemini":
            session.model = session.model or message.model or ""
            session.turns.append(_recorded_reply(message, text, at, location, len(session.turns)))
        case "user" if not session.turns and not session.task:
            session.task, session.began = text, at
        case "user":
            session.turns.append(RecordedText(text, at))
        case kind:
            others[kind] += 1


def _recorded_reply(message: _GeminiMessage, text: str, at: float | None, location: str, number: int) -> RecordedReply:
    calls, answers = [], []
    for position, call in enumerate(message.toolCalls):
        name = call.id or f"call_{number}_{position}"
        calls.append(ToolCall(name, call.name, call.args))
        if call.result is not None or call.status:
            failed = call.status in ("error", "cancelled")
            answers.append(RecordedResult(name, _result(call.result), failed, seconds(call.timestamp, location)))
    thoughts = "\n".join(words(thought.get("description") or thought.get("subject")) for thought in message.thoughts)
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


def _result(value: Any) -> str:
    """Return the text of a result, extracted from its function response."""
    texts = []
    for part in value if isinstance(value, list) else [value]:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        inner = response.get("response") if isinstance(response, dict) else part
        output = inner.get("output", inner.get("error")) if isinstance(inner, dict) else None
        texts.append(words(output if output is not None else inner))
    return "\n".join(filter(None, texts))
