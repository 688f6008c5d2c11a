"""Reads the trajectories of mini-swe-agent, format 1.1 and the 1 before it.

Source: mini-swe-agent 2, "Output files".
"""

from __future__ import annotations

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


class _MiniFunction(Struct, frozen=True):
    name: str
    arguments: str | Json | None = None


class _MiniCall(Struct, frozen=True):
    function: _MiniFunction
    id: str | None = None


class _MiniDetails(Struct, frozen=True):
    cached_tokens: Count | None = None


class _MiniUsage(Struct, frozen=True):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _MiniDetails | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _Response(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    usage: _MiniUsage | None = None


class _Extra(Struct, frozen=True):
    actions: list[Json] | None = None
    cost: float | None = None
    timestamp: float | str | None = None
    response: _Response | None = None
    returncode: int | None = None


class _MiniMessage(Struct, frozen=True):
    role: str
    content: str | list[Json] | None = None
    reasoning_content: str | None = None
    tool_calls: list[_MiniCall] | None = None
    tool_call_id: str | None = None
    timestamp: float | str | None = None
    extra: _Extra = _Extra()


class _Stats(Struct, frozen=True):
    instance_cost: float | None = None


class _Info(Struct, frozen=True):
    model_stats: _Stats = _Stats()
    config: Json | None = None
    mini_version: str = ""
    exit_status: str | None = None
    submission: str | None = None


class _MiniTrajectory(Struct, frozen=True):
    messages: list[_MiniMessage]
    trajectory_format: str = ""
    info: _Info = _Info()
    instance_id: str = ""


def read_mini(value: object, where: str) -> RecordedSession:
    """The trajectory as a session.

    Raises:
        UsageError: It is no trajectory of a version we know.
    """
    whole = shaped(value, _MiniTrajectory, where)
    known = ("mini-swe-agent-1", "mini-swe-agent-1.1")
    if whole.trajectory_format not in known:
        raise UsageError(f"{where} says its format is {whole.trajectory_format!r}; {' and '.join(known)} can be read")
    info = whole.info
    session = RecordedSession(
        origin=f"mini (mini-swe-agent {info.mini_version or 'of unknown version'})",
        id=whole.instance_id or "trajectory",
        name=whole.instance_id or "mini-swe-agent",
        model=_named(info.config, "model", "model_name"),
        workspace=_named(info.config, "environment", "cwd"),
        usd=info.model_stats.instance_cost,
        result=info.submission or None,
        finished=None if info.exit_status is None else info.exit_status == "Submitted",
        turns=[],
        left_out=[],
    )
    for number, message in enumerate(whole.messages, 1):
        _add(session, message, f"{where}, message {number}")
    if info.exit_status and not session.finished:
        session.left_out.append(f"how it ended: {info.exit_status}")
    return session


def _named(config: Json | None, part: str, key: str) -> str:
    inner = (config or {}).get(part)
    value = inner.get(key) if isinstance(inner, dict) else ""
    return value if isinstance(value, str) else ""


def _add(session: RecordedSession, message: _MiniMessage, where: str) -> None:
    text, at = words(message.content), seconds(message.extra.timestamp or message.timestamp, where)
    last = session.turns[-1] if session.turns else None
    match message.role:
        case "assistant":
            session.turns.append(_said(message, text, at, session))
        case "system" if not session.turns and not session.system:
            session.system = text
        case "user" if not session.turns and not session.task:
            session.task, session.began = text, at
        case "tool" | "user" if isinstance(last, RecordedReply) and (call := _answered(last, message)):
            code = message.extra.returncode
            last.answers.append(RecordedResult(call, text, code not in (None, 0), at, code))
        case "exit":
            if session.result is None and text:
                session.result = text
        case "system" | "user" | "tool":
            session.turns.append(RecordedText(text, at))
        case _:
            raise UsageError(f"{where} has the role {message.role!r}; system, user, assistant, tool and exit are known")


def _answered(said: RecordedReply, message: _MiniMessage) -> str:
    """The id of the call that a message answers: the one it names, else the first that waits; empty for none."""
    done = {answer.call_id for answer in said.answers}
    waiting = [call.id for call in said.calls if call.id not in done]
    if message.tool_call_id is not None:
        return message.tool_call_id if message.tool_call_id in waiting else ""
    return waiting[0] if waiting else ""


def _said(message: _MiniMessage, text: str, at: float | None, session: RecordedSession) -> RecordedReply:
    number = len(session.turns)
    calls = [_call(call, f"call_{number}_{place}") for place, call in enumerate(message.tool_calls or ())]
    if not calls:  # models that write their commands as text
        for place, action in enumerate(message.extra.actions or ()):
            name = action.get("tool_call_id")
            named = name if isinstance(name, str) and name else f"call_{number}_{place}"
            calls.append(ToolCall(named, "bash", {"command": words(action.get("command"))}))
    response = message.extra.response or _Response()
    return RecordedReply(
        parts=(*thinking(message.reasoning_content), *plain(text), *calls),
        at=at,
        stop="call" if calls else "end",
        usage=_usage(response.usage or _MiniUsage()),
        model=response.model or session.model,
        reply_id=response.id or "",
        usd=message.extra.cost,
        answers=[],
    )


def _call(call: _MiniCall, fallback: str) -> ToolCall:
    given = call.function.arguments
    if not isinstance(given, str):
        return ToolCall(call.id or fallback, call.function.name, given or {})
    try:
        return ToolCall(call.id or fallback, call.function.name, load(given, "arguments"))
    except UsageError:
        return ToolCall(call.id or fallback, call.function.name, malformed=given)


def _usage(given: _MiniUsage) -> Usage:
    """A prompt's tokens include those read from a cache and, where the writer counts so, those written to it."""
    prompt, written = given.prompt_tokens or 0, given.cache_creation_input_tokens or 0
    read = given.cache_read_input_tokens
    if read is None:
        read = (given.prompt_tokens_details.cached_tokens if given.prompt_tokens_details else None) or 0
    rest = prompt - read - written
    if rest < 0:  # the cache's tokens are counted beside the prompt's
        rest = prompt
    return Usage(rest, read, written, 0, given.completion_tokens or 0)
