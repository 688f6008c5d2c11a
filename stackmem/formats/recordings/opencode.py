"""Read a session that opencode exports: one JSON object with the messages and their parts.

A message of the assistant has one step for each reply of the model, and the results of its calls.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct

from stackmem.core.messages import Text, ToolCall, Usage
from stackmem.errors import UsageError

from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedText,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]
_QUIET = frozenset({"step-start", "snapshot"})


class _OpencodeCache(Struct, frozen=True):
    read: Count = 0
    write: Count = 0


class _OpencodeTokens(Struct, frozen=True):
    input: Count = 0
    output: Count = 0
    reasoning: Count = 0
    cache: _OpencodeCache = _OpencodeCache()


class _OpencodeInfo(Struct, frozen=True):
    role: str = ""
    modelID: str = ""  # noqa: N815 - the name in the file
    cost: float | None = None
    tokens: _OpencodeTokens | None = None
    time: Json = {}


class _OpencodeMessage(Struct, frozen=True):
    info: _OpencodeInfo
    parts: list[Json] = []


def is_opencode(value: Any) -> bool:
    """Return whether a JSON value is an exported session."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    info, messages = value.get("info"), value["messages"]
    return isinstance(info, dict) and "id" in info and all(isinstance(one, dict) and "info" in one for one in messages)


def read_opencode(value: object, location: str) -> RecordedSession:
    """Read the session."""
    if not isinstance(value, dict) or not is_opencode(value):
        raise UsageError(f"{location} is not an export of opencode; write one with opencode export")
    info = value["info"]
    session = RecordedSession(
        f"opencode {words(info.get('version'))}".strip(), str(info["id"]), name="opencode", turns=[], left_out=[],
        workspace=words(info.get("directory")),
    )  # fmt: skip
    others = Counter[str]()
    for number, one in enumerate(value["messages"], 1):
        message = shaped(one, _OpencodeMessage, f"{location}, message {number}")
        if message.info.role == "assistant":
            _replies(session, message, others, f"{location}, message {number}")
        else:
            _said(session, message)
    if not any(isinstance(turn, RecordedReply) for turn in session.turns):
        raise UsageError(f"{location} does not contain a reply; give the export of another session")
    session.left_out += [f"parts of the kind {kind!r}: {count}" for kind, count in sorted(others.items())]
    return session


def _time(info: _OpencodeInfo, name: str) -> float | None:
    at = info.time.get(name)
    return at / 1_000 if isinstance(at, int | float) and not isinstance(at, bool) else None


def _said(session: RecordedSession, message: _OpencodeMessage) -> None:
    text = words([part for part in message.parts if part.get("type") == "text" or "text" not in part], session.lost)
    at = _time(message.info, "created")
    if not session.task and not session.turns:
        session.task, session.began = text, at
    elif text:
        session.turns.append(RecordedText(text, at))


def _replies(session: RecordedSession, message: _OpencodeMessage, others: Counter[str], location: str) -> None:
    """Add one reply for each step of a message. The tokens of a message are those of its only step."""
    info = message.info
    at = _time(info, "completed") or _time(info, "created")
    session.model = session.model or info.modelID
    replies: list[RecordedReply] = []
    reply = RecordedReply((), at, "end", model=info.modelID, answers=[])
    for part in message.parts:
        kind = part.get("type")
        if kind == "step-finish":
            reply.usage = _usage(shaped(part.get("tokens") or {}, _OpencodeTokens, location))
            cost = part.get("cost")
            reply.usd = float(cost) if isinstance(cost, int | float) else None
            replies.append(reply)
            reply = RecordedReply((), at, "end", model=info.modelID, answers=[])
        elif not _take(reply, part, session):
            others[str(kind)] += kind not in _QUIET
    if reply.parts or not replies:
        replies.append(reply)
    if len(replies) == 1 and info.tokens is not None:
        replies[0].usage, replies[0].usd = _usage(info.tokens), info.cost
    session.turns += [reply for reply in replies if reply.parts or reply.usage != Usage()]
    others.pop("step-start", None)


def _take(reply: RecordedReply, part: Json, session: RecordedSession) -> bool:
    """Add a part to a reply. Returns whether its kind is known."""
    match part:
        case {"type": "text", "text": str(text)}:
            reply.parts = (*reply.parts, *((Text(text),) if text else ()))
        case {"type": "reasoning", "text": str(text)}:
            reply.parts = (*reply.parts, *thinking(text))
        case {"type": "tool", "tool": str(name), "state": dict(state)}:
            identity = words(part.get("callID")) or f"call_{len(session.turns)}_{len(reply.calls)}"
            reply.parts = (*reply.parts, ToolCall(identity, name, state.get("input")))
            reply.stop = "call"
            failed = state.get("status") == "error"
            text = words(state.get("error" if failed else "output"), session.lost)
            if state.get("status") in ("completed", "error"):
                reply.answers.append(RecordedResult(identity, text, failed))
        case _:
            return False
    return True


def _usage(tokens: _OpencodeTokens) -> Usage:
    """Convert tokens; those of thoughts are counted separately."""
    return Usage(tokens.input, tokens.cache.read, tokens.cache.write, 0, tokens.output + tokens.reasoning)
