"""Reads logs of Inspect, ``.eval`` or JSON, by its own library: a session for each sample.

A sample's messages are its conversation; the usage of a reply is that of the model's event with the same message or the
same call. Input tokens exclude those read from the cache and written to it.

Source: inspect_ai 0.3, its public models of logs and events.
"""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

from stackmem.core.messages import ReplyPart, ToolCall, Usage
from stackmem.errors import UsageError

from .session import RecordedReply, RecordedResult, RecordedSession, RecordedText, RecordingFile, plain, thinking

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

_LARGEST_BYTES = 1_000_000_000
_ZIP = b"PK\x03\x04"


def is_zip(content: bytes) -> bool:
    return content.startswith(_ZIP)


def read_inspect(file: RecordingFile) -> list[RecordedSession]:
    """A session for each sample that the log holds.

    Raises:
        UsageError: The extra is not installed, or the file is no log, or larger than a gigabyte once unpacked.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise UsageError("logs of Inspect need its library; pip install 'stackmem[inspect]' brings it") from error
    packed = is_zip(file.content)
    try:
        if packed:
            with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
                size = sum(member.file_size for member in archive.infolist())
            if size > _LARGEST_BYTES:
                raise UsageError(f"{file.where} unpacks to {size:,} bytes; at most {_LARGEST_BYTES:,} are read")
        log = read_eval_log(io.BytesIO(file.content), resolve_attachments=True, format="eval" if packed else "json")
    except UsageError:
        raise
    except Exception as error:  # the library raises what its parsers raise
        said = " ".join(str(error).split())[:200]
        raise UsageError(
            f"{file.where} is no log that Inspect reads ({said}); give the file as its tool wrote it"
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
    usage: dict[str | None, Any] = {}
    for event in sample.events:
        if event.event == "model" and event.output.choices and event.output.usage is not None:
            message = event.output.message
            usage.update(
                dict.fromkeys((message.id, *(call.id for call in message.tool_calls or ())), event.output.usage)
            )
    for told in sample.messages:
        _add(session, told, usage)
    session.left_out += [f"its score {name}: {score.value}" for name, score in (sample.scores or {}).items()]
    if sample.error is not None:
        session.left_out.append(f"how it ended: {sample.error.message[:200]}")
    return session


def _add(session: RecordedSession, message: Any, usage: dict[str | None, Any]) -> None:
    text = message.text
    match message.role:
        case "system" if not session.turns:
            session.system = "\n\n".join(filter(None, (session.system, text)))
        case "user" if not session.turns and not session.task:
            session.task = text
        case "assistant":
            names = (message.id, *(call.id for call in message.tool_calls or ()))
            session.turns.append(_said(session, message, next((usage[one] for one in names if one in usage), None)))
        case "tool" if (said := _asked(session, message.tool_call_id)) is not None:
            error = message.error.message if message.error is not None else ""
            shown = "\n".join(filter(None, (text, error)))
            said.answers.append(RecordedResult(message.tool_call_id, shown, message.error is not None))
        case _:
            session.turns.append(RecordedText(text))


def _asked(session: RecordedSession, call_id: str | None) -> RecordedReply | None:
    """The reply with the call that a message answers, where nothing has answered it."""
    for turn in reversed(session.turns):
        if isinstance(turn, RecordedReply) and any(call.id == call_id for call in turn.calls):
            return None if any(answer.call_id == call_id for answer in turn.answers) else turn
    return None


def _said(session: RecordedSession, message: Any, used: Any) -> RecordedReply:
    parts: tuple[ReplyPart, ...] = plain(message.text)
    if not isinstance(message.content, str):
        thoughts = [one.reasoning for one in message.content if one.type == "reasoning"]
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
