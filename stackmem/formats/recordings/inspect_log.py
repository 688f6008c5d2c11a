"""Read logs of Inspect, ``.eval`` or JSON, with its own library: one session per sample.

A sample's messages are its conversation. The usage of a reply comes from the model event with the same message or call.
For stackmem's own runs, whose frames are spans, the events are the conversation instead. Input tokens do not include
cache reads and writes.

Source: inspect_ai 0.3, its public models of logs and events.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned, Ending
from stackmem.core.messages import ReplyPart, ToolCall, Usage
from stackmem.foreign.installing import install_command
from stackmem.foreign.zips import opened_zip

from .session import (
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    RecordingFile,
    plain,
    thinking,
    words,
)

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent, ToolEvent
    from inspect_ai.log import EvalLog, EvalSample

_MAX_BYTES = 1_000_000_000
_ZIP = b"PK\x03\x04"
_VERDICTS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}
_LIMITS: dict[str, Ending] = {
    "token": "limit:tokens", "time": "limit:seconds", "working": "limit:seconds", "cost": "limit:usd",
    "message": "limit:steps", "turn": "limit:steps",
}  # fmt: skip


def is_zip(content: bytes) -> bool:
    return content.startswith(_ZIP)


def read_inspect(file: RecordingFile) -> list[RecordedSession]:
    """Return a session for each sample in the log.

    Raise UsageError if the extra is not installed, or the file is not a log or larger than a gigabyte when unpacked.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise UsageError(
            f"logs of Inspect need the extra 'inspect'; install it: {install_command('inspect')}"
        ) from error
    packed = is_zip(file.content)
    try:
        if packed:
            with opened_zip(file.content) as archive:
                size = sum(member.size for member in archive.files)
            if size > _MAX_BYTES:
                raise UsageError(f"{file.source} unpacks to {size:,} bytes; at most {_MAX_BYTES:,} are read")
        log = read_eval_log(io.BytesIO(file.content), resolve_attachments=True, format="eval" if packed else "json")
    except UsageError:
        raise
    except Exception as error:  # the library raises whatever its parsers raise
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"{file.source} is not a log that Inspect can read ({reason}); give the original file"
        ) from error
    return [_session(log, sample) for sample in log.samples or ()]


def _session(log: EvalLog, sample: EvalSample) -> RecordedSession:
    session = RecordedSession(
        origin=f"inspect ({log.eval.task})",
        id=f"{sample.id} epoch {sample.epoch}",
        name=str(sample.id),
        model=log.eval.model,
        turns=[],
        left_out=[],
    )
    if "stackmem" in log.eval.packages:
        _SpanReader(session).read(sample)
    else:
        _messages(session, sample)
    if not session.task and isinstance(sample.input, str):
        session.task = sample.input
    _end(session, sample)
    return session


def _messages(session: RecordedSession, sample: EvalSample) -> None:
    named_messages = {name for message in sample.messages for name in _names(message)}
    usage: dict[str | None, Any] = {}
    untold = 0
    for event in sample.events:
        if event.event == "model" and event.output.choices:
            names = _names(event.output.message)
            untold += not named_messages.intersection(names)
            if event.output.usage is not None:
                usage.update(dict.fromkeys(names, event.output.usage))
    for message in sample.messages:
        _add(session, message, usage)
    if untold:
        session.left_out.append(
            f"{untold:,} replies of a model outside the sample's messages, by graders or other agents"
        )


class _SpanReader:
    """Builds a conversation for each span from its events. A call that opened a span has it as its child."""

    def __init__(self, session: RecordedSession) -> None:
        self._session = session
        self._spans: dict[str | None, RecordedSession] = {}
        self._opened: list[tuple[RecordedResult, str]] = []
        self._numbers: dict[str | None, list[int]] = {}  # the numbers of each span's replies, as counted by the run

    def read(self, sample: EvalSample) -> None:
        for event in sample.events:
            if not self._spans:
                self._spans[event.span_id] = self._session
            fresh = RecordedSession(self._session.origin, "span", model=self._session.model, turns=[], left_out=[])
            span = self._spans.setdefault(event.span_id, fresh)
            match event.event:
                case "span_begin" if span is not self._session:
                    span.name = event.name
                case "model":
                    self._model(span, event)
                case "tool":
                    self._tool(span, event)
                case "info" if isinstance(event.data, dict) and "text" in event.data:
                    span.turns.append(RecordedText(words(event.data["text"]), event.timestamp.timestamp()))
        for answer, opened in self._opened:
            answer.child = self._spans.get(opened)

    def _model(self, span: RecordedSession, event: ModelEvent) -> None:
        if not span.turns and not span.task:
            texts = {message.role: message.text for message in reversed(event.input)}
            span.system, span.task = texts.get("system", ""), texts.get("user", "")
            span.began = event.timestamp.timestamp()
        at = (event.completed or event.timestamp).timestamp()
        if not event.output.choices:
            span.turns.append(RecordedText(f"The provider failed: {event.error}", at))
            return
        reply, metadata = _recorded_reply(span, event.output.message, event.output.usage), event.metadata or {}
        reply.at, reply.model = at, event.output.model or reply.model
        upto, numbers = metadata.get("up_to_step"), self._numbers.setdefault(event.span_id, [])
        if isinstance(upto, int):
            span.turns.append(RecordedSummary(reply, sum(number > upto for number in numbers), at))
            return
        span.turns.append(reply)
        number = metadata.get("step")
        numbers.append(number if isinstance(number, int) else 0)

    def _tool(self, span: RecordedSession, event: ToolEvent) -> None:
        reply = _calling_reply(span, event.id)
        if reply is None or not (event.agent_span_id or (event.metadata or {}).get("answered")):
            return
        text = event.result if isinstance(event.result, str) else ""
        at = (event.completed or event.timestamp).timestamp()
        answer = RecordedResult(event.id, text, event.error is not None, at)
        reply.answers.append(answer)
        if event.agent_span_id:
            self._opened.append((answer, event.agent_span_id))


def _names(message: Any) -> tuple[str | None, ...]:
    """Return the identifiers of a model's message: its id and those of its calls."""
    return (message.id, *(call.id for call in getattr(message, "tool_calls", None) or ()))


def _end(session: RecordedSession, sample: EvalSample) -> None:
    """Set the ending and the verdict. A run of stackmem has both in its metadata."""
    ours = sample.metadata.get("ending")
    scores = sample.scores or {}
    rewards = {name: _VERDICTS[score.value] for name, score in scores.items() if _is_verdict(score.value)}
    if ours in get_args(Ending):
        session.ending, session.result = ours, str(sample.metadata.get("result") or "")
        rewards = {
            name: float(value) for score in scores.values() for name, value in _rewards(score.metadata)
        } or rewards
    elif sample.limit is not None:
        session.ending = _LIMITS.get(sample.limit.type, "interrupted")
    elif sample.error is not None:
        session.finished = False
    if rewards:
        session.checks = ChecksReturned(rewards)
    session.left_out += [
        f"its score {name}: {value.value}" for name, value in scores.items() if not _is_verdict(value.value)
    ]
    if sample.error is not None:
        session.left_out.append(f"how it ended: {sample.error.message[:200]}")


def _is_verdict(value: Any) -> bool:
    return isinstance(value, str | bool) and value in _VERDICTS


def _rewards(metadata: dict[str, Any] | None) -> Iterable[tuple[str, float]]:
    rewards = (metadata or {}).get("rewards")
    return rewards.items() if isinstance(rewards, dict) else ()


def _add(session: RecordedSession, message: Any, usage: dict[str | None, Any]) -> None:
    text = message.text
    if not isinstance(message.content, str):
        session.lost.update(part.type for part in message.content if part.type not in ("text", "reasoning"))
    match message.role:
        case "system" if not session.turns:
            session.system = "\n\n".join(filter(None, (session.system, text)))
        case "user" if not session.turns and not session.task:
            session.task = text
        case "assistant":
            names = (message.id, *(call.id for call in message.tool_calls or ()))
            session.turns.append(
                _recorded_reply(session, message, next((usage[part] for part in names if part in usage), None))
            )
        case "tool" if (reply := _calling_reply(session, message.tool_call_id)) is not None:
            error = message.error.message if message.error is not None else ""
            result_text = "\n".join(filter(None, (text, error)))
            reply.answers.append(RecordedResult(message.tool_call_id, result_text, message.error is not None))
        case _:
            session.turns.append(RecordedText(text))


def _calling_reply(session: RecordedSession, call_id: str | None) -> RecordedReply | None:
    """Return the reply with the call that a message answers, if it has no answer yet."""
    for turn in reversed(session.turns):
        if isinstance(turn, RecordedReply) and any(call.id == call_id for call in turn.calls):
            return None if any(answer.call_id == call_id for answer in turn.answers) else turn
    return None


def _recorded_reply(session: RecordedSession, message: Any, used: Any) -> RecordedReply:
    parts: tuple[ReplyPart, ...] = plain(message.text)
    if not isinstance(message.content, str):
        thoughts = [part.reasoning for part in message.content if part.type == "reasoning"]
        parts = (*thinking("\n".join(filter(None, thoughts))), *parts)
    calls = tuple(ToolCall(call.id, call.function, call.arguments) for call in message.tool_calls or ())
    return RecordedReply(
        parts=(*parts, *calls),
        stop="call" if calls else "end",
        usage=Usage() if used is None else _usage(used),
        model=message.model or session.model,
        answers=[],
    )


def _usage(used: Any) -> Usage:
    read, written = used.input_tokens_cache_read or 0, used.input_tokens_cache_write or 0
    return Usage(used.input_tokens, read, written, 0, used.output_tokens)
