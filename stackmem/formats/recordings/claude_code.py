"""Read a session of Claude Code: JSON Lines with one line per block of a message. Subagents become frames.

The format has no public specification. This reader is based on files of versions 1 and 2, and on the output of
``--output-format stream-json``. Lines of other kinds are counted and left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import Stop
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, Usage
from stackmem.core.text import quantity

from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    json_lines,
    load,
    seconds,
    shaped,
    words,
)

Json = dict[str, Any]

_STOPS: dict[str, Stop] = {
    "tool_use": "call", "end_turn": "end", "stop_sequence": "end", "max_tokens": "truncated", "refusal": "refused",
    "pause_turn": "paused", "model_context_window_exceeded": "window",
}  # fmt: skip
_OWN = frozenset({"sessionId", "uuid", "parentUuid", "leafUuid", "isSidechain", "isSnapshotUpdate", "toolUseResult"})
_POSITION_FIELDS = frozenset({"uuid", "sessionId", "parentUuid", "isSidechain", "agentId", "version", "cwd"})


class _Written(Struct, frozen=True):
    ephemeral_5m_input_tokens: Count = 0
    ephemeral_1h_input_tokens: Count = 0


class _ClaudeUsage(Struct, frozen=True):
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: _Written | None = None


class _ClaudeMessage(Struct, frozen=True):
    content: str | list[Json] = ""
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: _ClaudeUsage | None = None


class _Line(Struct, rename={"session_id": "sessionId", "parent": "parentUuid", "sidechain": "isSidechain",
                            "agent": "agentId", "meta": "isMeta", "made_up": "isApiErrorMessage",
                            "tool_use_result": "toolUseResult", "usd": "costUSD",
                            "summary": "isCompactSummary"}):  # fmt: skip
    type: str = ""
    uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    parent: str | None = None
    sidechain: bool = False
    agent: str | None = None
    meta: bool = False
    made_up: bool = False
    summary: bool = False  # whether the text replaces the conversation before it
    version: str = ""
    cwd: str = ""
    subtype: str | None = None
    message: _ClaudeMessage | str | None = None
    usd: float | None = None
    content: Any = None
    tool_use_result: Any = None


def is_claude_code(value: Any) -> bool:
    """Return whether a JSON value is a line of a session, or a session as shared on the web."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("loglines"), list) or value.get("type") == "summary":
        return True
    message = value.get("message")
    is_message = isinstance(message, dict) and value.get("type", message.get("role")) in ("user", "assistant")
    return is_message or (isinstance(value.get("type"), str) and bool(_OWN & value.keys()))


def read_claude_code(text: str, location: str, subagents: Iterable[tuple[str, str]] = ()) -> RecordedSession:
    """Read the session with its subagents.

    ``subagents`` are the names and texts of the files with subagents, which later versions write. Raise UsageError if a
    line does not match the format, or there is no conversation. The message names the line.
    """
    reader = _ClaudeReader()
    reader.lines(text, location, "")
    for name, inner in subagents:
        reader.lines(inner, name, name)
    return reader.session(location)


class _ClaudeReader:
    """Sorts lines into conversations and then joins them. The key of the main conversation is ``""``."""

    def __init__(self) -> None:
        self._conversations: dict[str, _ClaudeConversation] = {"": _ClaudeConversation("")}
        self._home: dict[str, str] = {}
        self._others: Counter[str] = Counter()
        self._stream_session = RecordedSession("claude-code", "session")
        self._version = self._cwd = self._id = ""
        self._lines: list[tuple[str, _Line, str]] = []  # each with its conversation and its place
        self._written: dict[str, str] = {}  # the content of a line to its uuid

    def lines(self, text: str, source: str, file: str) -> None:
        """Read one file. ``file`` is empty for the main file, otherwise the agent's name if lines do not name it."""
        if '"loglines"' in text[:4000]:
            document = load(text, source)
            log_lines = document.get("loglines") if isinstance(document, dict) else None
            for number, value in enumerate(log_lines if isinstance(log_lines, list) else (), 1):
                self._line(value, f"{source}, line {number} of its log", file)
            return
        for location, value in json_lines(text, source, self._stream_session.left_out):
            self._line(value, location, file)

    def _line(self, value: Any, location: str, file: str) -> None:
        if not isinstance(value, dict):
            self._others["no object"] += 1
            return
        uuid, message = value.get("uuid"), value.get("message")
        if isinstance(uuid, str) and uuid in self._home:  # a resumed session repeats earlier lines
            return
        kind = value.get("type") or (message.get("role") if isinstance(message, dict) else None)
        is_conversation = kind in ("user", "assistant") or (
            kind == "system" and value.get("subtype") == "compact_boundary"
        )
        if not is_conversation:
            self._other(str(kind), value)
            value = {name: field for name, field in value.items() if name in _POSITION_FIELDS}
        try:
            line = shaped({**value, "type": kind if is_conversation else ""}, _Line, location)
        except UsageError:
            if is_conversation:
                raise
            return
        self._version, self._cwd = self._version or line.version, self._cwd or line.cwd
        self._id = self._id or line.session_id or ""
        key = self._key(line, file)
        if line.uuid is not None:
            self._home[line.uuid] = key
        if is_conversation and not self._is_copy(line, value):
            self._lines.append((key, line, location))

    def _is_copy(self, line: _Line, value: Json) -> bool:
        """Return whether the line repeats an earlier one under another uuid, as when a session is resumed."""
        if line.timestamp is None or line.uuid is None:
            return False
        content = json.dumps([line.timestamp, value.get("message"), value.get("content")], sort_keys=True)
        return self._written.setdefault(content, line.uuid) != line.uuid

    def _sort(self) -> int:
        """Add the lines to their conversations. Returns the number of lines of branches that the user rewound."""
        rewound = rewound_lines([line for _, line, _ in self._lines])
        for number, (key, line, location) in enumerate(self._lines):
            conversation = self._conversations.setdefault(key, _ClaudeConversation(key))
            if number not in rewound:
                conversation.add(line, location)
            elif line.type == "assistant":
                conversation.add_bill(line, location)
        return len(rewound)

    def _other(self, kind: str, value: Json) -> None:
        """Handle a line that is not a message. The last line of a stream contains the result and the cost."""
        cost = value.get("total_cost_usd")
        if kind == "result" and isinstance(cost, int | float) and not isinstance(cost, bool):
            session = self._stream_session
            session.usd = float(cost)
            session.result = words(value.get("result")) or None
            session.finished = value.get("is_error") is not True
        else:
            self._others[kind] += 1

    def _key(self, line: _Line, file: str) -> str:
        """Return the conversation of a line: its agent's, otherwise its parent line's, otherwise a new one."""
        if not line.sidechain and not file:
            return ""
        return line.agent or file or self._home.get(line.parent or "", "") or f"sidechain {line.uuid}"

    def session(self, source: str) -> RecordedSession:
        rewound = self._sort()
        main = self._conversations.pop("")
        if not main.session.turns and self._conversations:  # the file of a single subagent
            main = self._conversations.pop(next(iter(self._conversations)))
        if not main.session.turns:
            raise UsageError(f"{source} does not contain a conversation of Claude Code; give the session's .jsonl file")
        session, stream_session = main.session, self._stream_session
        session.id = self._id or "session"
        session.origin = f"claude-code {self._version}".strip()
        session.workspace = self._cwd
        session.usd, session.result, session.finished = (
            stream_session.usd,
            stream_session.result,
            stream_session.finished,
        )
        self._join(main)
        if compactions := sum(line.summary for _, line, _ in self._lines):
            session.left_out.append(f"the usage of {quantity(compactions, 'compaction')}, which the file does not have")
        if rewound:
            session.left_out.append(f"{quantity(rewound, 'line')} of branches that the user rewound; their cost counts")
        session.left_out += [f"lines of the kind {kind!r}: {count}" for kind, count in sorted(self._others.items())]
        if self._conversations:
            session.left_out.append(f"{len(self._conversations)} subagents whose call is unknown")
        session.left_out += stream_session.left_out
        return session

    def _join(self, conversation: _ClaudeConversation) -> None:
        """Attach each subagent to the call that started it, by the id in its result or by its prompt."""
        for turn in conversation.session.turns:
            for answer in turn.answers if isinstance(turn, RecordedReply) else ():
                key = conversation.agents.get(answer.call_id, "")
                prompt = conversation.prompts.get(answer.call_id)
                if key not in self._conversations:
                    alike = (
                        name for name, other in self._conversations.items() if prompt and other.session.task == prompt
                    )
                    key = next(alike, "")
                if key:
                    child = self._conversations.pop(key)
                    child.session.name = conversation.kinds.get(answer.call_id, "")
                    answer.child = child.session
                    self._join(child)


def rewound_lines(lines: list[_Line]) -> set[int]:
    """Return the lines of branches that the user left: those that have the same parent as a later request.

    Results of calls that ran in parallel also share a parent, but they are not requests.
    """
    children: dict[str, list[int]] = {}
    rewound: set[int] = set()
    for number, line in enumerate(lines):
        if line.parent is None or line.sidechain:
            continue
        siblings = children.setdefault(line.parent, [])
        if _is_request(line):
            waiting = [each for each in siblings if not _answers(lines[each])]
            while waiting:
                each = waiting.pop()
                rewound.add(each)
                waiting += children.get(lines[each].uuid or "", ())
        siblings.append(number)
    return rewound


def _is_request(line: _Line) -> bool:
    return line.type == "user" and not line.meta and not _answers(line)


def _answers(line: _Line) -> bool:
    """Return whether a line has the result of a call."""
    content = line.message.content if isinstance(line.message, _ClaudeMessage) else ""
    blocks = content if isinstance(content, list) else []
    return any(block.get("type") == "tool_result" for block in blocks)


class _ClaudeConversation:
    """One conversation, built line by line."""

    def __init__(self, key: str) -> None:
        self.session = RecordedSession("claude-code", key, name="claude-code", turns=[], left_out=[])
        self.agents: dict[str, str] = {}  # call id to the agent that its result names
        self.prompts: dict[str, str] = {}  # call id to the prompt for an agent
        self.kinds: dict[str, str] = {}  # call id to the requested kind of agent
        self._callers: dict[str, RecordedReply] = {}
        self._replies: dict[str, RecordedReply] = {}

    def add(self, line: _Line, location: str) -> None:
        at = seconds(line.timestamp, location)
        message = line.message
        if line.type == "system" or not isinstance(message, _ClaudeMessage):
            self.session.turns.append(RecordedText(message if isinstance(message, str) else words(line.content), at))
        elif line.type == "user":
            self._user(line, message, at)
        elif line.made_up or message.model == "<synthetic>":
            self.session.turns.append(RecordedText(words(message.content), at))
        else:
            self._assistant(message, at, location, line.usd)

    def add_bill(self, line: _Line, location: str) -> None:
        """Add only the usage of a reply, which was paid for although the user left its branch."""
        message = line.message
        if isinstance(message, _ClaudeMessage) and message.id and message.usage is not None:
            self._assistant(replace(message, content=[]), seconds(line.timestamp, location), location, line.usd)

    def _user(self, line: _Line, message: _ClaudeMessage, at: float | None) -> None:
        blocks = message.content if isinstance(message.content, list) else []
        for block in blocks:
            if block.get("type") == "tool_result":
                self._result(block, line, at)
        lost = self.session.lost
        rest = [block for block in blocks if block.get("type") != "tool_result"]
        text = words(rest if blocks else message.content, lost)
        has_replies = any(isinstance(turn, RecordedReply) for turn in self.session.turns)
        if text and line.summary and has_replies:
            reply = RecordedReply((Text(text),), at, "end", model=self.session.model)
            self.session.turns.append(RecordedSummary(reply, 0, at))
        elif text and not line.meta and not has_replies and not self.session.task:
            self.session.task, self.session.began = text, at
        elif text:
            self.session.turns.append(RecordedText(text, at))

    def _result(self, block: Json, line: _Line, at: float | None) -> None:
        name = block.get("tool_use_id")
        caller = self._callers.get(name) if isinstance(name, str) else None
        if caller is not None and any(answer.call_id == name for answer in caller.answers):
            text = words(block.get("content"), self.session.lost)
            if all(answer.text != text for answer in caller.answers if answer.call_id == name):
                self.session.turns.append(RecordedText(text, at))
            return
        if caller is None:
            self.session.turns.append(RecordedText(words(block.get("content"), self.session.lost), at))
            return
        tool_use_result = line.tool_use_result
        if isinstance(tool_use_result, dict) and isinstance(tool_use_result.get("agentId"), str):
            self.agents[str(name)] = tool_use_result["agentId"]
        text = words(block.get("content"), self.session.lost)
        caller.answers.append(RecordedResult(str(name), text, block.get("is_error") is True, at))

    def _assistant(self, message: _ClaudeMessage, at: float | None, location: str, usd: float | None) -> None:
        """Add the blocks of a line to a reply. Lines of one reply share its id, and the last usage counts."""
        reply = self._replies.get(message.id) if message.id else None
        if reply is None:
            reply = RecordedReply((), answers=[], model=message.model, reply_id=message.id)
            self.session.turns.append(reply)
            self.session.model = self.session.model or message.model
            if message.id:
                self._replies[message.id] = reply
        blocks = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
        for block in blocks:
            part = self._part(block, reply, location)
            if part not in reply.parts:  # lines of a resumed session are written again
                reply.parts = (*reply.parts, part)
        reply.at = at if at is not None else reply.at
        reply.stop = _STOPS.get(message.stop_reason or "", "call" if reply.calls else "end")
        if message.usage is not None:
            reply.usage = _usage(message.usage)
        reply.usd = usd if usd is not None else reply.usd

    def _part(self, block: Json, reply: RecordedReply, location: str) -> ReplyPart:
        match block:
            case {"type": "text", "text": str(text)}:
                return Text(text)
            case {"type": "thinking" | "redacted_thinking"}:
                return Thinking(block)
            case {"type": "tool_use", "id": str(name), "name": str(tool)}:
                arguments = block.get("input")
                self._callers[name] = reply
                if isinstance(arguments, dict):
                    self._starts(name, arguments)
                return ToolCall(name, tool, arguments)
            case {"type": str(kind)}:
                return Text(f"[{kind}] {words(block.get('content'))}".strip())
            case _:
                raise UsageError(f"{location} contains a block without a type; give the original file")

    def _starts(self, name: str, arguments: Json) -> None:
        prompt, kind = arguments.get("prompt"), arguments.get("subagent_type")
        if isinstance(prompt, str):
            self.prompts[name] = prompt
        if isinstance(kind, str):
            self.kinds[name] = kind


def _usage(usage: _ClaudeUsage) -> Usage:
    written = usage.cache_creation_input_tokens or 0
    long = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0
    short = usage.cache_creation.ephemeral_5m_input_tokens if usage.cache_creation else 0
    if short + long != written and usage.cache_creation_input_tokens is not None:
        short = max(0, written - long)
    return Usage(usage.input_tokens, usage.cache_read_input_tokens or 0, short, long, usage.output_tokens)
