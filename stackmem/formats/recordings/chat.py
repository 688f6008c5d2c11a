"""Read conversations in the format of chat interfaces: messages with roles, calls, and answers by id.

The input is a list of messages, as a JSON value, as its ``messages`` or ``history``, or as one line each; or a list of
tau-bench's runs. The field ``extra`` of messages comes from mini-swe-agent.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned
from stackmem.core.guidance.lessons import FOREIGN_NAMES
from stackmem.core.messages import ReplyPart, ToolCall, Usage
from stackmem.core.tools import CALLS
from stackmem.providers.calls.text_calls import recorded_call

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
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?```", re.DOTALL)
_RETURNED = re.compile(r"\s*<returncode>(-?\d{1,9})</returncode>")


class _Function(Struct, frozen=True):
    name: str
    arguments: str | Json | None = None


class _ChatCall(Struct, frozen=True):
    function: _Function
    id: str | None = None


class _Details(Struct, frozen=True):
    cached_tokens: Count | None = None


class ChatUsage(Struct, frozen=True):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class ChatResponse(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    created: float | None = None
    usage: ChatUsage | None = None


class _Extra(Struct, frozen=True):
    actions: list[Json] | None = None
    cost: float | None = None
    timestamp: float | str | None = None
    response: ChatResponse | None = None
    returncode: int | None = None


class ChatMessage(Struct, frozen=True):
    role: str
    content: str | list[Json] | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ChatCall] | None = None
    tool_call_id: str | None = None
    timestamp: float | str | None = None
    extra: _Extra = _Extra()


class _TauInfo(Struct, frozen=True):
    task_id: int | str
    traj: list[ChatMessage]
    trial: int = 0
    reward: float | None = None


def is_chat(value: object) -> bool:
    """Return whether a JSON value is a message, contains or is a list of messages, or is a list of tau-bench's runs."""
    if isinstance(value, dict) and isinstance(value.get("role"), str):
        return "content" in value and "type" not in value
    messages = _listed(value)
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, dict) and (
        ("role" in first and "parts" not in first) or {"task_id", "traj"} <= first.keys()
    )


def _listed(value: object) -> object:
    return value.get("messages", value.get("history")) if isinstance(value, dict) else value


def read_chat(text: str, location: str) -> list[RecordedSession]:
    """Read the messages as one session, or each tau-bench run as one session. Trials of a task share its name.

    Raise UsageError if the text has neither form.
    """
    session = RecordedSession("chat", "conversation", left_out=[])
    try:
        value = load(text, location)
    except UsageError:
        value = [each for _, each in json_lines(text, location, session.left_out)]
    value = [value] if isinstance(value, dict) and "role" in value else _listed(value)
    if not isinstance(value, list) or not value or not is_chat(value):
        raise UsageError(f"{location} is not a list of messages with roles; give the original file")
    if "role" in value[0]:
        return [_conversation(shaped(value, list[ChatMessage], location), location, session)]
    runs = shaped(value, list[_TauInfo], location)
    return [_tau(run, f"{location}, run {number}") for number, run in enumerate(runs, 1)]


def _tau(run: _TauInfo, location: str) -> RecordedSession:
    name = f"tau-{run.task_id}"
    session = RecordedSession("chat (tau-bench)", f"{name} trial {run.trial}", name=name, left_out=[])
    if run.reward is not None:
        session.checks = ChecksReturned({"reward": run.reward})
    return _conversation(run.traj, location, session)


def _conversation(messages: list[ChatMessage], location: str, session: RecordedSession) -> RecordedSession:
    session.turns, fenced = [], not any(message.tool_calls or message.role == "tool" for message in messages)
    for number, message in enumerate(messages, 1):
        add_message(session, message, f"{location}, message {number}", fenced=fenced)
    return session


def add_message(session: RecordedSession, message: ChatMessage, location: str, *, fenced: bool) -> None:
    """Add a message to the session: as its start, a reply, an answer to a call, or text in between.

    ``fenced`` says whether the only fenced block of a reply without calls is a call, as in mini-swe-agent 1. Raise
    UsageError if the role is unknown.
    """
    extra = message.extra
    text, at = words(message.content, session.lost), seconds(extra.timestamp or message.timestamp, location)
    last = session.turns[-1] if session.turns else None
    match message.role:
        case "assistant":
            session.turns.append(_recorded_reply(message, text, at, session, fenced=fenced))
        case "system" | "developer" if not session.turns and not session.system:
            session.system = text
        case "user" if not session.turns and not session.task:
            session.task, session.began = text, at
        case "tool" | "user" if isinstance(last, RecordedReply) and (call := _answered_call_id(last, message)):
            code = extra.returncode if extra.returncode is not None else _returned(text)
            last.answers.append(RecordedResult(call, text, code not in (None, 0), at, code))
        case "exit":
            if session.result is None and text:
                session.result = text
        case "system" | "developer" | "user" | "tool":
            session.turns.append(RecordedText(text, at))
        case _:
            roles = "system, developer, user, assistant, tool and exit"
            raise UsageError(f"{location} has the role {message.role!r}; only {roles} are known")


def _returned(text: str) -> int | None:
    match = _RETURNED.match(text)
    return int(match[1]) if match else None


def _answered_call_id(reply: RecordedReply, message: ChatMessage) -> str:
    """Return the id of the answered call: the one named, otherwise the first without an answer; empty for none."""
    done = {answer.call_id for answer in reply.answers}
    waiting = [call.id for call in reply.calls if call.id not in done]
    if message.tool_call_id is not None:
        return message.tool_call_id if message.tool_call_id in waiting else ""
    return waiting[0] if waiting else ""


def _recorded_reply(
    message: ChatMessage, text: str, at: float | None, session: RecordedSession, *, fenced: bool
) -> RecordedReply:
    number = len(session.turns)
    calls = [_call(call, f"call_{number}_{position}") for position, call in enumerate(message.tool_calls or ())]
    if not calls:  # for models that write commands as text
        for position, action in enumerate(message.extra.actions or ()):
            name = action.get("tool_call_id")
            call_id = name if isinstance(name, str) and name else f"call_{number}_{position}"
            calls.append(ToolCall(call_id, "bash", {"command": words(action.get("command"))}))
    written = None if calls else recorded_call(plain(text), _known_tools(session), f"call_{number}_0")
    if written is not None:
        return msgspec.structs.replace(_reply(message, at, session, written[0]), repairs=(written[1],))
    if not calls and fenced and message.extra.actions is None and not any(reply.repairs for reply in session.replies()):
        blocks = list(_FENCED.finditer(text))
        if len(blocks) == 1:
            calls.append(ToolCall(f"call_{number}_0", "bash", {"command": blocks[0][1]}))
            text = text[: blocks[0].start()] + text[blocks[0].end() :]  # the call already contains this text
    return _reply(message, at, session, (*plain(text), *calls))


def _known_tools(session: RecordedSession) -> frozenset[str]:
    """Return the tools that a text may call: those used in the conversation, stackmem's, and known foreign ones.

    Conversations do not list the tools that were available to the model.
    """
    return frozenset({*CALLS, *FOREIGN_NAMES, *(call.name for reply in session.replies() for call in reply.calls)})


def _reply(
    message: ChatMessage, at: float | None, session: RecordedSession, parts: tuple[ReplyPart, ...]
) -> RecordedReply:
    response = message.extra.response or ChatResponse()
    return RecordedReply(
        parts=(*thinking(message.reasoning_content), *parts),
        at=response.created if at is None else at,
        stop="call" if any(isinstance(part, ToolCall) for part in parts) else "end",
        usage=chat_usage(response.usage),
        model=response.model or session.model,
        reply_id=response.id or "",
        usd=message.extra.cost,
        answers=[],
    )


def _call(call: _ChatCall, fallback: str) -> ToolCall:
    arguments = call.function.arguments
    if not isinstance(arguments, str):
        return ToolCall(call.id or fallback, call.function.name, arguments or {})
    return spelled_call(call.id or fallback, call.function.name, arguments)


def spelled_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Return a call whose arguments are supposed to be JSON text."""
    try:
        return ToolCall(call_id, name, load(arguments, "arguments"))
    except UsageError:
        return ToolCall(call_id, name, malformed=arguments)


def chat_usage(usage: ChatUsage | None) -> Usage:
    """Convert the usage. Prompt tokens include cache reads and, for some writers, cache writes."""
    usage = usage or ChatUsage()
    prompt, written = usage.prompt_tokens or 0, usage.cache_creation_input_tokens or 0
    read = usage.cache_read_input_tokens
    if read is None:
        read = (usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None) or 0
    rest = prompt - read - written
    if rest < 0:  # this writer counts cache tokens separately from the prompt
        rest = prompt
    return Usage(rest, read, written, 0, usage.completion_tokens or 0)
