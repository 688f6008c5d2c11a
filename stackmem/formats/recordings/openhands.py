"""Read events of OpenHands: those of version 0, as its evaluations write them, and those of its software agent SDK.

A file is a list of events, one event per line, or one task per line with its events in ``history``. Actions are joined
with their observations. Actions of one model response form one reply, whose usage counts once. Events of 2024 are flat
and do not name a cause, so an observation answers the previous action.

Source: files of OpenHands evaluations; the SDK's event classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolCall
from stackmem.core.text import quantity

from .chat import ChatResponse, chat_usage, spelled_call
from .session import (
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


class _ToolCallMetadata(Struct, frozen=True):
    function_name: str
    tool_call_id: str
    model_response: Json = {}


class _OpenHandsEvent(Struct, frozen=True):
    """An event of either version. Each version uses different fields."""

    id: int | str | None = None
    timestamp: str | None = None
    source: str = ""
    action: str | Json | None = None
    observation: str | Json | None = None
    args: Json = {}
    cause: int | None = None
    content: Any = None
    extras: Json = {}
    tool_call_metadata: _ToolCallMetadata | None = None
    kind: str = ""
    system_prompt: Any = None
    llm_message: Json = {}
    thought: Any = None
    reasoning_content: str | None = None
    tool_name: str = ""
    tool_call_id: str = ""
    tool_call: Json = {}
    llm_response_id: str = ""
    error: Any = None
    summary: str | None = None


class _SavedTask(Struct, frozen=True):
    history: list[Any]
    instance_id: str = ""
    issue: Json | None = None
    metadata: Json | None = None
    metrics: Json | None = None
    error: str | None = None


def is_openhands(value: object) -> bool:
    """Return whether a JSON value is an event, a list of events, or a task with its history."""
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, dict):
        return False
    event = "source" in first and (first.keys() & {"action", "observation", "kind"})
    return bool(event) or (isinstance(first.get("history"), list) and bool(first.keys() & {"instance_id", "issue"}))


def read_openhands(text: str, source: str) -> list[RecordedSession]:
    """Return the sessions of a file: one for a list of events, or one per task.

    Raise UsageError if the content has another form. The message names the line.
    """
    torn: list[str] = []
    try:
        values = [load(text, source)]
    except UsageError:
        values = [value for _, value in json_lines(text, source, torn)]
    tasks = [each for value in values for each in (value if isinstance(value, list) else [value])]
    if tasks and all(isinstance(each, dict) and "history" in each for each in tasks):
        sessions = [
            _session(shaped(each, _SavedTask, source), f"{source}, task {position}")
            for position, each in enumerate(tasks, 1)
        ]
    else:
        sessions = [_session(_SavedTask(tasks), source)]
    sessions[0].left_out += torn
    return sessions


def _session(task: _SavedTask, source: str) -> RecordedSession:
    config = (task.metadata or {}).get("llm_config")
    model = config.get("model") if isinstance(config, dict) else ""
    number, cost = (task.issue or {}).get("number"), (task.metrics or {}).get("accumulated_cost")
    name = task.instance_id or ("" if number is None else f"issue-{number}")
    session = RecordedSession(
        origin="openhands",
        id=name or "events",
        name=name,
        model=model if isinstance(model, str) else "",
        usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
        turns=[],
        left_out=[f"how it ended: {task.error[:200]}"] if task.error else [],
    )
    reader = _OpenHandsReader(session)
    for number, event in enumerate(_flat(task.history), 1):
        location = f"{source}, event {number}"
        if isinstance(event, dict) and not event.keys() & {"source", "kind", "args", "extras"}:
            reader.flat(event, number)
        else:
            reader.event(shaped(event, _OpenHandsEvent, location), location)
    session.left_out += [f"{quantity(count, 'event')} of kind {kind}" for kind, count in sorted(reader.others.items())]
    return session


def _flat(history: list[Any]) -> Iterator[Any]:
    """Yield the events. Older files contain pairs of an action and its observation."""
    for entry in history:
        if isinstance(entry, list):
            yield from entry
        else:
            yield entry


class _OpenHandsReader:
    def __init__(self, session: RecordedSession) -> None:
        self._session = session
        self.others: Counter[str] = Counter()
        self._calls: dict[int | str, tuple[RecordedReply, str]] = {}

    def event(self, event: _OpenHandsEvent, location: str) -> None:
        at = seconds(event.timestamp, location)
        if event.kind:
            self._sdk(event, at)
        elif event.tool_call_metadata is not None and event.action is not None:
            self._action(event, event.tool_call_metadata, at, location)
        elif event.cause in self._calls and event.cause is not None:
            self._answer(*self._calls[event.cause], words(event.content), _code(event.extras), at)
        elif event.action == "system":
            self._session.system = words(event.args.get("content"))
        elif event.action in ("message", "finish") and event.source in ("user", "agent"):
            self._message(event.source, words(event.args.get("content", event.args.get("final_thought"))), at)
        else:
            self.others[str(event.action or event.observation)] += 1

    def flat(self, event: Json, number: int) -> None:
        """Add an event of 2024, whose fields are not nested and which has no time."""
        kind, last = event.get("action"), self._session.turns[-1] if self._session.turns else None
        if kind == "message":
            source = "agent" if event.get("wait_for_response") is True else "user"
            self._message(source, words(event.get("content")), None)
        elif kind == "finish":
            self._message("agent", words(event.get("thought")), None)
        elif isinstance(kind, str) and kind:
            arguments = {name: value for name, value in event.items() if name not in ("action", "thought")}
            reply = self._reply(f"event {number}", None)
            reply.parts = (*plain(words(event.get("thought"))), ToolCall(f"event {number}", kind, arguments))
        elif isinstance(last, RecordedReply) and last.calls:
            self._answer(last, last.calls[0].id, words(event.get("content")), _code(event), None)
        else:
            self.others[str(event.get("observation"))] += 1

    def _sdk(self, event: _OpenHandsEvent, at: float | None) -> None:
        match event.kind:
            case "SystemPromptEvent":
                self._session.system = words(event.system_prompt)
            case "MessageEvent":
                self._message(event.source, words(event.llm_message.get("content"), self._session.lost), at)
            case "ActionEvent":
                arguments = event.tool_call.get("arguments", event.action)
                spelled = arguments if isinstance(arguments, str) else None
                call = (
                    ToolCall(event.tool_call_id, event.tool_name, arguments)
                    if spelled is None
                    else spelled_call(event.tool_call_id, event.tool_name, spelled)
                )
                reply = self._reply(event.llm_response_id, at)
                if not reply.calls:
                    reply.parts = (*thinking(event.reasoning_content), *plain(words(event.thought)))
                reply.parts = (*reply.parts, call)
                self._calls[event.tool_call_id] = (reply, event.tool_call_id)
            case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation" if event.tool_call_id in self._calls:
                seen = event.observation if isinstance(event.observation, dict) else {}
                text = words(event.error or seen.get("content", seen.get("output")), self._session.lost)
                failed = event.kind != "ObservationEvent" or seen.get("is_error") is True
                self._answer(*self._calls[event.tool_call_id], text, _code(seen), at, failed=failed)
            case "CondensationSummaryEvent" | "Condensation" if event.summary:
                self._session.turns.append(RecordedText(event.summary, at))
            case _:
                self.others[event.kind] += 1

    def _action(self, event: _OpenHandsEvent, metadata: _ToolCallMetadata, at: float | None, location: str) -> None:
        response = shaped(metadata.model_response, ChatResponse, location)
        reply = self._reply(response.id or f"event {event.id}", at)
        message = _message_of(metadata.model_response)
        if not reply.calls:
            if not self._calls and response.model:
                # the configuration contains the address of the model instead of its name
                self._session.model = response.model
            reply.parts = plain(words(message.get("content")))
            reply.usage, reply.model = chat_usage(response.usage), response.model or self._session.model
        call_id = f"{metadata.tool_call_id}-{event.id}"
        reply.parts = (*reply.parts, _call(call_id, metadata, message, event.args))
        if event.id is not None:
            self._calls[event.id] = (reply, call_id)

    def _reply(self, name: str, at: float | None) -> RecordedReply:
        """Return the reply of a response: the last one if its name matches, otherwise a new one."""
        last = self._session.turns[-1] if self._session.turns else None
        if isinstance(last, RecordedReply) and name and last.reply_id == name:
            return last
        reply = RecordedReply((), at, reply_id=name, model=self._session.model, answers=[])
        self._session.turns.append(reply)
        return reply

    def _answer(
        self, reply: RecordedReply, call_id: str, text: str, code: int | None, at: float | None, *, failed: bool = False
    ) -> None:
        if all(answer.call_id != call_id for answer in reply.answers):
            reply.answers.append(RecordedResult(call_id, text, failed or code not in (None, 0), at, code))

    def _message(self, source: str, text: str, at: float | None) -> None:
        session = self._session
        if source == "agent":
            session.turns.append(RecordedReply(plain(text), at, "end", model=session.model, answers=[]))
        elif not session.turns and not session.task:
            session.task, session.began = text, at
        else:
            session.turns.append(RecordedText(text, at))


def _message_of(response: Json) -> Json:
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else {}


def _call(call_id: str, metadata: _ToolCallMetadata, message: Json, args: Json) -> ToolCall:
    """Return the call as the model wrote it, or from the event if the response does not contain it."""
    calls = message.get("tool_calls")
    for candidate in calls if isinstance(calls, list) else ():
        function = (
            candidate.get("function")
            if isinstance(candidate, dict) and candidate.get("id") == metadata.tool_call_id
            else None
        )
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            return spelled_call(call_id, metadata.function_name, function["arguments"])
    return ToolCall(call_id, metadata.function_name, {name: value for name, value in args.items() if name != "thought"})


def _code(fields: Json) -> int | None:
    inner = fields.get("metadata")
    code = inner.get("exit_code") if isinstance(inner, dict) else fields.get("exit_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and code >= 0 else None
