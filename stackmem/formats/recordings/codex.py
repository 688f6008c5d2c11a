"""Read rollouts of Codex CLI: JSON Lines of ``timestamp``, ``type`` and ``payload``, and the formats before it.

Older files of 2025 contain the bare items, one per line or in one JSON object with their session. Usage is on separate
lines, cumulative and repeated, so a line counts only if the total has grown. Cached tokens are part of the input and
reasoning is part of the output. The model can change from turn to turn.

Source: openai/codex, protocol of rollouts; the format has no public specification.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.messages import ReplyPart, ToolCall, Usage
from stackmem.core.text import quantity
from stackmem.foreign.files import read_regular, read_start

from .chat import spelled_call
from .session import (
    Count,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
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
_STANDING = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md", "<INSTRUCTIONS>")
_LINES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_ITEMS = frozenset({
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "local_shell_call_output",
})  # fmt: skip
_TARGETS = re.compile(r'"(?:agent_id|task_name)":\s*"([^"]{1,300})"')
_MAX_HEAD_BYTES = 1 << 20
MAX_ROLLOUT_BYTES = 1 << 30
_EXITED = re.compile(r"(?:Exit code: |Process exited with code )(-?\d{1,9})")


class _RolloutLine(Struct, frozen=True):
    type: str
    timestamp: str | None = None
    payload: Json = {}


class _TokenUsage(Struct, frozen=True):
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    output_tokens: Count = 0


class _TokenInfo(Struct, frozen=True):
    total_token_usage: _TokenUsage = _TokenUsage()
    last_token_usage: _TokenUsage = _TokenUsage()


def is_codex(value: Any) -> bool:
    """Return whether a JSON value is a line of a rollout, or a complete older rollout."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind is None:
        return _is_head(value) or (isinstance(value.get("items"), list) and isinstance(value.get("session"), dict))
    if not isinstance(kind, str):
        return False
    if kind == "message":
        return "role" in value and isinstance(value.get("content"), list)
    return isinstance(value.get("payload"), dict) if kind in _LINES else kind in _ITEMS and "call_id" in value


def _is_head(value: Json) -> bool:
    """Return whether a value is the header of an older rollout."""
    return {"id", "timestamp", "instructions"} <= value.keys()


def codex_agents(path: Path | None) -> Iterator[tuple[str, str]]:
    """Yield name and text of a session's other rollouts: those of its sub-agents, in the same folder."""
    own = _head_of(path) if path is not None else {}
    if path is None or not own.get("session_id") or own.get("parent_thread_id"):
        return
    for other in sorted(path.parent.glob("rollout-*.jsonl")):
        head = _head_of(other) if other != path else {}
        if head.get("session_id") == own["session_id"] and head.get("parent_thread_id"):
            yield str(other), read_regular(other, MAX_ROLLOUT_BYTES).decode("utf-8-sig", "replace")


def _head_of(path: Path) -> Json:
    """Return the first line's payload; empty if it has another form."""
    try:
        value = load(read_start(path, _MAX_HEAD_BYTES).partition(b"\n")[0].decode("utf-8-sig", "replace"), str(path))
    except (OSError, UsageError):
        return {}
    payload = value.get("payload") if isinstance(value, dict) else None
    return payload if isinstance(payload, dict) else {}


def read_codex(text: str, source: str, agents: Iterable[tuple[str, str]] = ()) -> RecordedSession:
    """Read the rollout as a session. Lines that are not JSON are counted and left out.

    ``agents`` are the names and texts of the rollouts of its sub-agents. Raise UsageError if a line does not match the
    format. The message names it.
    """
    readers = [_read(text, source), *(_read(inner, name) for name, inner in agents)]
    waiting = list(readers[1:])
    for reader in readers:
        _join(reader.session, waiting)
    main = readers[0].session
    if waiting:
        main.left_out.append(f"{quantity(len(waiting), 'sub-agent')} whose call is unknown")
    return main


def _join(session: RecordedSession, waiting: list[_CodexReader]) -> None:
    """Attach each sub-agent to the call that started it: the call's result contains its id or its path."""
    for turn in (turn for turn in session.turns if isinstance(turn, RecordedReply)):
        for answer in turn.answers:
            spawns = any(call.id == answer.call_id and call.name == "spawn_agent" for call in turn.calls)
            targets = set(_TARGETS.findall(answer.text)) if spawns else set()
            agent = next((reader for reader in waiting if {reader.session.id, reader.path} & targets), None)
            if agent is not None:
                waiting.remove(agent)
                answer.child = agent.session


def _read(text: str, file: str) -> _CodexReader:
    reader = _CodexReader()
    for location, value in _lines(text, file, reader.session.left_out):
        reader.line(shaped(value, _RolloutLine, location), location)
    session = reader.session
    session.left_out += [f"{quantity(count, 'line')} of kind {kind}" for kind, count in sorted(reader.others.items())]
    return reader


def _lines(text: str, source: str, left_out: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the lines, converted to the current format."""
    try:
        document = load(text, source)
    except UsageError:
        document = None
    located: Iterable[tuple[str, Any]] = json_lines(text, source, left_out)
    if is_codex(document) and "items" in document:
        items = [{"id": "", "timestamp": None, "instructions": "", **document["session"]}, *document["items"]]
        located = [(f"{source}, item {number}", item) for number, item in enumerate(items)]
    for location, value in located:
        yield location, _today(value) if isinstance(value, dict) and "payload" not in value else value


def _today(value: Json) -> Json:
    kind = value.get("type")
    if isinstance(kind, str) and kind in _ITEMS:
        return {"type": "response_item", "timestamp": value.get("timestamp"), "payload": value}
    if _is_head(value):
        return {"type": "session_meta", "timestamp": value["timestamp"], "payload": value}
    return {"type": words(value["record_type"])} if "record_type" in value else value  # a separator between turns


class _CodexReader:
    def __init__(self) -> None:
        self.session = RecordedSession("codex", "rollout", turns=[], left_out=[])
        self.others: Counter[str] = Counter()
        self.path = ""  # its place among the agents of its session; empty if the rollout has none
        self._model = ""
        self._total = _TokenUsage()
        self._open = False
        self._waiting: dict[str, RecordedReply] = {}

    def line(self, line: _RolloutLine, location: str) -> None:
        payload, at = line.payload, seconds(line.timestamp, location)
        match line.type:
            case "session_meta":
                self._meta(payload)
            case "turn_context":
                self._model = words(payload.get("model")) or self._model
                self.session.model = self.session.model or self._model
            case "response_item":
                self._item(payload, at, location)
            case "event_msg" if payload.get("type") == "token_count":
                self._tokens(payload.get("info"), location)
            case "compacted":
                self._open = False
                self._compacted(words(payload.get("message")), at)
            case "event_msg":
                pass  # response items contain the same information
            case kind:
                self.others[kind] += 1

    def _compacted(self, text: str, at: float | None) -> None:
        """Add the summary that replaces the conversation so far, or the text if there is nothing to replace."""
        if text and any(isinstance(turn, RecordedReply) for turn in self.session.turns):
            reply = RecordedReply(plain(text), at, "end", model=self._model)
            self.session.turns.append(RecordedSummary(reply, 0, at))
        else:
            self.session.turns.append(RecordedText(text, at))

    def _meta(self, payload: Json) -> None:
        session, version = self.session, words(payload.get("cli_version"))
        if session.id == "rollout":  # a fork repeats its parent's metadata
            session.id = words(payload.get("id")) or session.id
            self.path = words(payload.get("agent_path"))
            session.origin = f"codex (Codex CLI {version or 'of unknown version'})"
            session.workspace = words(payload.get("cwd"))
            session.system = words(payload.get("base_instructions") or payload.get("instructions"))

    def _item(self, payload: Json, at: float | None, location: str) -> None:
        kind, call_id = (
            str(payload.get("type", "message" if "role" in payload else None)),
            words(payload.get("call_id")),
        )
        lost = self.session.lost
        match kind:
            case "message" if payload.get("role") == "assistant":
                self._say(plain(words(payload.get("content"), lost)), at)
            case "agent_message":  # from another agent; newer models encrypt the text
                self._tell(words(_plain_parts(payload.get("content")), lost), at)
            case "message":
                self._tell(words(payload.get("content"), lost), at)
            case "reasoning":
                summary = words(payload.get("summary"))
                if not summary and payload.get("encrypted_content"):
                    lost["encrypted reasoning"] += 1
                self._say(thinking(summary), at)
            case "function_call":
                self._call(spelled_call(call_id, words(payload.get("name")), words(payload.get("arguments"))), at)
            case "custom_tool_call":
                arguments = {"command": words(payload.get("input"))}
                self._call(ToolCall(call_id, words(payload.get("name")), arguments), at)
            case "local_shell_call":
                self._call(ToolCall(call_id, "local_shell", payload.get("action")), at)
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" if (
                call_id in self._waiting
            ):
                self._open = False
                text, code = _output(payload.get("output"), location, lost)
                self._waiting.pop(call_id).answers.append(
                    RecordedResult(call_id, text, code not in (None, 0), at, code)
                )
            case _:
                self.others[kind] += 1

    def _say(self, parts: tuple[ReplyPart, ...], at: float | None) -> RecordedReply:
        """Add parts to the open reply, or start a new one."""
        last = self.session.turns[-1] if self.session.turns else None
        if not (self._open and isinstance(last, RecordedReply)):
            last = RecordedReply((), at, "end", model=self._model, answers=[])
            self.session.turns.append(last)
            self._open = True
        last.parts = (*last.parts, *parts)
        return last

    def _call(self, call: ToolCall, at: float | None) -> None:
        reply = self._say((call,), at)
        reply.stop = "call"
        self._waiting[call.id] = reply

    def _tell(self, text: str, at: float | None) -> None:
        self._open = False
        session = self.session
        if text.startswith(_STANDING) and not session.task:
            session.system = "\n\n".join(filter(None, (session.system, text)))
        elif not session.turns and not session.task:
            session.task, session.began = text, at
        else:
            session.turns.append(RecordedText(text, at))

    def _tokens(self, info: object, location: str) -> None:
        if info is None:
            return
        token_info = shaped(info, _TokenInfo, location)
        replies = [turn for turn in self.session.turns if isinstance(turn, RecordedReply)]
        if token_info.total_token_usage == self._total or not replies or replies[-1].usage.total:
            return
        self._total, used = token_info.total_token_usage, token_info.last_token_usage
        read = min(used.cached_input_tokens, used.input_tokens)
        replies[-1].usage = Usage(used.input_tokens - read, read, 0, 0, used.output_tokens)
        self._open = False


def _plain_parts(content: object) -> object:
    """Return the parts of a message with encrypted parts as their text, which is that of the call that sent it."""
    parts = content if isinstance(content, list) else []
    return [
        {"text": part["encrypted_content"]} if isinstance(part, dict) and "encrypted_content" in part else part
        for part in parts
    ]


def _output(output: object, location: str, lost: Counter[str]) -> tuple[str, int | None]:
    """Return the text of a result and its exit code, if recorded."""
    if isinstance(output, str) and output.startswith('{"output"'):
        try:
            value = load(output, location)
        except UsageError:
            value = None
        if isinstance(value, dict):
            metadata = value.get("metadata")
            code = metadata.get("exit_code") if isinstance(metadata, dict) else None
            return words(value.get("output")), code if isinstance(code, int) and not isinstance(code, bool) else None
    text = words(output.get("content") if isinstance(output, dict) else output, lost)
    match = _EXITED.search(text[:400])
    return text, int(match[1]) if match else None
