"""Read sessions of opencode: the JSON object that it exports, or those in its SQLite database.

A message of the assistant has one step for each reply of the model, and the results of its calls. A session that a call
started is part of its parent's, if the database contains it; an export contains only one session.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed
from stackmem.core.messages import Text, ToolCall, Usage
from stackmem.core.text import quantity
from stackmem.foreign.databases import SqliteFile

from .session import (
    Count,
    RecordedFailure,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    RecordingFile,
    load,
    shaped,
    thinking,
    words,
)

Json = dict[str, Any]
Other = Callable[[str], Json | None]
"""Returns another session by its id; None if the recording does not contain it."""
_QUIET = frozenset({"step-start", "snapshot"})
_ABORTED = "MessageAbortedError"
_TABLES = ("session", "message", "part")


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
    id: str = ""
    modelID: str = ""  # noqa: N815 - the name in the file
    cost: float | None = None
    tokens: _OpencodeTokens | None = None
    time: Json = {}
    summary: Any = None  # True for a reply that summarizes the conversation
    error: Json | None = None


class _OpencodeMessage(Struct, frozen=True):
    info: _OpencodeInfo
    parts: list[Json] = []


def is_opencode(value: Any) -> bool:
    """Return whether a JSON value is an exported session."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    info, messages = value.get("info"), value["messages"]
    return (
        isinstance(info, dict)
        and "id" in info
        and all(isinstance(message, dict) and "info" in message for message in messages)
    )


def read_opencode(value: object, location: str) -> RecordedSession:
    """Read an exported session."""
    if not isinstance(value, dict) or not is_opencode(value):
        raise UsageError(f"{location} is not an export of opencode; write one with opencode export")
    session = _session(value, location, lambda _: None, ())
    if not any(isinstance(turn, RecordedReply) for turn in session.turns):
        raise UsageError(f"{location} does not contain a reply; give the export of another session")
    return session


def read_opencode_database(file: RecordingFile) -> list[RecordedSession]:
    """Read the sessions of a database that have replies, the oldest first.

    A session that another one started is part of it, unless no call names it. Such a session, or one that
    ``file.session`` names, is read on its own.

    Raise UsageError if the file is not a database of opencode, or does not contain the session.
    """
    try:
        with SqliteFile(file.path or Path(file.source), _TABLES) as database:
            sessions = list(_sessions(database, file))
    except OSError as error:
        raise UsageError(
            f"{file.source} cannot be read as a database of opencode ({error.strerror}); name another file, "
            "or one session with --session ID"
        ) from error
    return [session for session in sessions if any(True for _ in session.replies())]


def _sessions(database: SqliteFile, file: RecordingFile) -> Iterator[RecordedSession]:
    rows = database.rows("SELECT id, parent_id FROM session ORDER BY time_created, id")
    parents = {str(name): parent for name, parent in rows}
    if file.session:
        names = [file.session] if file.session in parents else []
    else:  # parents before the sessions that they started
        names = sorted(parents, key=lambda name: parents[name] in parents)
    frames: set[str] = set()

    def other(name: str) -> Json | None:
        frames.add(name)
        return _stored(database, name, file.source) if name in parents else None

    for name in names:
        value = _stored(database, name, file.source) if name not in frames else None
        if value is not None:
            yield _session(value, f"{file.source}, session {name}", other, ())


def _stored(database: SqliteFile, name: str, location: str) -> Json | None:
    """Return a session of the database in the form of an export."""
    heads = list(database.rows("SELECT directory, title, version, parent_id FROM session WHERE id = ?", name))
    if not heads:
        return None
    directory, title, version, parent = heads[0]
    parts: dict[str, list[Json]] = {}
    for message, text in database.rows("SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id", name):
        parts.setdefault(message, []).append(_object(text, f"{location}, a part of the message {message}"))
    rows = database.rows("SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", name)
    messages = []
    for message, text in rows:
        head = _object(text, f"{location}, message {message}")
        messages.append({"info": head | {"id": message}, "parts": parts.get(message, [])})
    info = {"id": name, "directory": directory, "title": title, "version": version, "parentID": parent}
    return {"info": info, "messages": messages}


def _object(text: object, location: str) -> Json:
    value = load(text, location) if isinstance(text, str) else None
    if not isinstance(value, dict):
        raise UsageError(f"{location} is not a JSON object; give the original file")
    return value


def _session(
    value: Json,
    location: str,
    other: Other,
    parents: tuple[str, ...],
    since: float = -math.inf,
    until: float = math.inf,
) -> RecordedSession:
    """Convert the messages of a session that were created between two times, in seconds since 1970."""
    info = value["info"]
    session = RecordedSession(
        f"opencode {words(info.get('version'))}".strip(), str(info["id"]), name=words(info.get("title")) or "opencode",
        turns=[], left_out=[], workspace=words(info.get("directory")),
    )  # fmt: skip
    messages = [
        shaped(entry, _OpencodeMessage, f"{location}, message {number}")
        for number, entry in enumerate(value["messages"], 1)
    ]
    reader = _OpencodeReader(session, location, other, (*parents, session.id), _starts(messages))
    for number, message in enumerate(messages, 1):
        if since <= (_time(message.info.time, "created") or 0.0) < until:
            reader.add(message, f"{location}, message {number}")
    reader.close()
    return session


def _time(times: object, name: str) -> float | None:
    at = times.get(name) if isinstance(times, dict) else None
    return at / 1_000 if isinstance(at, int | float) and not isinstance(at, bool) else None


def _started(part: Json) -> tuple[str, float | None]:
    """Return the session that a call worked in, empty if it did not start one, and the time when the call began."""
    state = part.get("state")
    inside = state.get("metadata") if isinstance(state, dict) else None
    name = inside.get("sessionId") if isinstance(inside, dict) else None
    began = _time(state.get("time"), "start") if isinstance(state, dict) else None
    return (name if part.get("type") == "tool" and isinstance(name, str) else ""), began


def _starts(messages: Sequence[_OpencodeMessage]) -> dict[str, list[float]]:
    """Return when each started session was called. A call can continue the session of an earlier one."""
    starts: dict[str, list[float]] = {}
    for name, began in (_started(part) for message in messages for part in message.parts):
        if name:
            calls = starts.setdefault(name, [])
            calls.append(math.inf if began is None and calls else began or -math.inf)
    return starts


class _OpencodeReader:
    """Adds the messages of one session to it."""

    def __init__(
        self, session: RecordedSession, location: str, other: Other, names: tuple[str, ...],
        starts: dict[str, list[float]],
    ) -> None:  # fmt: skip
        self._session, self._location, self._other, self._names, self._starts = session, location, other, names, starts
        self._others = Counter[str]()
        self._missing = 0
        self._called = Counter[str]()  # calls so far per started session
        self._places: dict[str, int] = {}  # the number of turns before each message
        self._tail = ""  # the first message that the next summary does not replace

    def add(self, message: _OpencodeMessage, location: str) -> None:
        self._places[message.info.id] = len(self._session.turns)
        if message.info.role == "assistant":
            self._add_replies(message, location)
        else:
            self._add_text(message)

    def close(self) -> None:
        """Add what was left out."""
        self._session.left_out += [
            f"parts of the kind {kind!r}: {count}" for kind, count in sorted(self._others.items())
        ]
        if self._missing:
            self._session.left_out.append(
                f"{quantity(self._missing, 'conversation')} of sub-agents, which are not part of an export; "
                "import the file opencode.db to get them"
            )

    def _add_text(self, message: _OpencodeMessage) -> None:
        session, parts = self._session, []
        for part in message.parts:
            if part.get("type") == "compaction":
                self._tail = words(part.get("tail_start_id"))
            elif part.get("type") == "text" or "text" not in part:
                parts.append(part)
        text, at = words(parts, session.lost), _time(message.info.time, "created")
        if not session.task and not session.turns:
            session.task, session.began = text, at
        elif text:
            session.turns.append(RecordedText(text, at))

    def _add_replies(self, message: _OpencodeMessage, location: str) -> None:
        """Add one reply for each step of a message. The tokens of a message are those of its only step."""
        info, session = message.info, self._session
        at = _time(info.time, "completed") or _time(info.time, "created")
        session.model = session.model or info.modelID
        replies = list(self._replies(message, at, location))
        if len(replies) == 1 and info.tokens is not None:
            replies[0].usage, replies[0].usd = _usage(info.tokens), info.cost
        replies = [reply for reply in replies if reply.parts or reply.usage != Usage()]
        if info.summary is True:
            start = self._places.get(self._tail, len(session.turns))
            preceding = sum(isinstance(turn, RecordedReply) for turn in session.turns[start:])
            session.turns += [RecordedSummary(reply, preceding, at) for reply in replies]
        else:
            session.turns += replies
        error = info.error or {}
        if error and words(error.get("name")) != _ABORTED:
            data = error.get("data")
            detail = words(data.get("message")) if isinstance(data, dict) else ""
            session.turns.append(RecordedFailure(ModelFailed("rejected", detail or words(error.get("name"))), at))

    def _replies(self, message: _OpencodeMessage, at: float | None, location: str) -> Iterator[RecordedReply]:
        info, count = message.info, 0
        reply = RecordedReply((), at, "end", model=info.modelID, answers=[])
        for part in message.parts:
            kind = part.get("type")
            if kind == "step-finish":
                reply.usage = _usage(shaped(part.get("tokens") or {}, _OpencodeTokens, location))
                cost = part.get("cost")
                reply.usd = float(cost) if isinstance(cost, int | float) else None
                yield reply
                count += 1
                reply = RecordedReply((), at, "end", model=info.modelID, answers=[])
            elif not self._take(reply, part) and kind not in _QUIET:
                self._others[str(kind)] += 1
        if reply.parts or not count:
            yield reply

    def _take(self, reply: RecordedReply, part: Json) -> bool:
        """Add a part to a reply. Returns whether its kind is known."""
        match part:
            case {"type": "text", "text": str(text)}:
                reply.parts = (*reply.parts, *((Text(text),) if text else ()))
            case {"type": "reasoning", "text": str(text)}:
                reply.parts = (*reply.parts, *thinking(text))
            case {"type": "tool", "tool": str(name), "state": dict(state)}:
                identity = words(part.get("callID")) or f"call_{len(self._session.turns)}_{len(reply.calls)}"
                reply.parts = (*reply.parts, ToolCall(identity, name, state.get("input")))
                reply.stop = "call"
                if state.get("status") in ("completed", "error"):
                    reply.answers.append(self._result(identity, part, state))
            case _:
                return False
        return True

    def _result(self, identity: str, part: Json, state: Json) -> RecordedResult:
        failed = state.get("status") == "error"
        text = words(state.get("error" if failed else "output"), self._session.lost)
        inside = state.get("metadata")
        code = inside.get("exit") if isinstance(inside, dict) else None
        code = code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31 else None
        failed = failed or code not in (None, 0)
        at = _time(state.get("time"), "end")
        return RecordedResult(identity, text, failed, at, exit_code=code, child=self._child(part))

    def _child(self, part: Json) -> RecordedSession | None:
        """Return what a call's own session did until the next call of the same session."""
        name, _ = _started(part)
        if not name or name in self._names:
            return None
        calls, number = self._starts[name], self._called[name]
        self._called[name] += 1
        value = self._other(name)
        if value is None or value["info"].get("parentID") != self._session.id:
            self._missing += 1
            return None
        since = calls[number] if number else -math.inf
        until = calls[number + 1] if number + 1 < len(calls) else math.inf
        return _session(value, f"{self._location}, session {name}", self._other, self._names, since, until)


def _usage(tokens: _OpencodeTokens) -> Usage:
    """Convert tokens; those of thoughts are counted separately."""
    return Usage(tokens.input, tokens.cache.read, tokens.cache.write, 0, tokens.output + tokens.reasoning)
