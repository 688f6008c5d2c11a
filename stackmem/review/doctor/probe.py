"""Three small requests that show how a Chat Completions server and its model handle tool calls.

Each requests the same call: with native tools, with tools described in the prompt, and with a JSON schema. The
schema allows only a different value than the prompt requests, so a reply with that value shows that the server
obeys the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, ToolCall, ToolSpec, View
from stackmem.core.requests import AskModel
from stackmem.models.endpoint import Endpoint
from stackmem.providers.calls.call_schema import schema_format
from stackmem.providers.calls.text_calls import as_text, with_calls
from stackmem.providers.event_stream import server_events
from stackmem.providers.failures import one_line, sentence
from stackmem.providers.openai_messages import chat_body
from stackmem.providers.openai_stream import read_chat
from stackmem.providers.server.small_requests import Answer, Json, post

Form = Literal["native call", "call in the text", "no call", "refused"]

_SECONDS = 600.0
_REPLY_TOKENS = 120
_FILE, _FORCED = "notes.txt", "schema-probe.txt"
_READ_FILE = ToolSpec(
    "read_file",
    "Read a file of the project and return its text.",
    '{"type":"object","properties":{"path":{"type":"string","description":"Path of the file."}},"required":["path"]}',
)
_SYSTEM = (
    "You are a coding agent. You work on the files of a project, and you look at a file before you change it. "
    "Every reply of yours is exactly one tool call. You never answer in prose, and you never invent what a file says. "
)
_VIEW = View(_SYSTEM, (_READ_FILE,), Log((Message("user", (Text(f"Call read_file with the path {_FILE}."),)),)))
_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"const": "read_file"},
        "arguments": {"type": "object", "properties": {"path": {"const": _FORCED}}, "required": ["path"]},
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}
_NONE: Mapping[str, str] = {}


class FormProbe(Struct, frozen=True):
    """The result of one request."""

    form: Form  # how the reply called the tool; "refused" if the server returned an error
    right: bool = False  # whether it called the requested tool with the requested argument
    detail: str = ""  # the error, or the beginning of a reply without a call
    seconds: float = 0.0
    first_seconds: float = 0.0
    # prompt_tokens, cached_tokens, output_tokens: as reported by the server; None if missing
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    # prompt_speed, reply_speed: tokens per second; None if there were too few tokens to measure
    prompt_speed: float | None = None
    reply_speed: float | None = None


class ServerProbes(Struct, frozen=True):
    """The results of the three requests, in order; the first two have the same prompt."""

    native: FormProbe  # with native tools
    constrained: FormProbe  # with a JSON schema
    text: FormProbe  # with tools described in the prompt

    @property
    def prompt_speed(self) -> float | None:
        """Tokens that the server reads per second. The second request is cached, so it does not count."""
        return max(filter(None, (self.native.prompt_speed, self.text.prompt_speed)), default=None)

    @property
    def reply_speed(self) -> float | None:
        """Tokens that the server writes per second."""
        speeds = (self.native.reply_speed, self.constrained.reply_speed, self.text.reply_speed)
        return max(filter(None, speeds), default=None)

    @property
    def ignores_tools(self) -> bool:
        """Whether the prompt with native tools was much shorter than the one with tools in its text."""
        native, text = self.native.prompt_tokens, self.text.prompt_tokens
        return native is not None and text is not None and native < text * 0.6

    @property
    def cache(self) -> Literal["works", "does not work", "not known"]:
        """Whether the second request, with the same prompt, was served from the cache."""
        first, second = self.native, self.constrained
        if first.form == "refused" or second.form == "refused":
            return "not known"
        if second.cached_tokens is not None and second.prompt_tokens:
            return "works" if second.cached_tokens >= second.prompt_tokens / 2 else "does not work"
        if first.first_seconds < 1.0:
            return "not known"
        return "works" if second.first_seconds < first.first_seconds / 2 else "does not work"


def probe_server(endpoint: Endpoint, model: str, headers: Mapping[str, str] = _NONE) -> ServerProbes:
    """Send the three requests one after the other; each may take ten minutes on a slow machine."""
    body = chat_body(_VIEW, model)
    constrained = {**body, "response_format": schema_format(_SCHEMA)}
    return ServerProbes(
        _probe(endpoint, body, _FILE, headers),
        _probe(endpoint, constrained, _FORCED, headers),
        _probe(endpoint, as_text(body), _FILE, headers),
    )


def _probe(endpoint: Endpoint, body: Json, path: str, headers: Mapping[str, str]) -> FormProbe:
    sent = {**body, "stream": True, "temperature": 0, "max_tokens": _REPLY_TOKENS}
    sent.pop("parallel_tool_calls", None)
    answer = post(endpoint, f"{endpoint.url}/chat/completions", sent, seconds=_SECONDS, headers=headers)
    if answer.status != 200:
        detail = f"HTTP {answer.status}: {sentence(answer.text)}" if answer.status else answer.text
        return FormProbe("refused", detail=one_line(detail, endpoint.secret), seconds=answer.seconds)
    events = list(server_events([answer.text.encode()], float("inf")))
    reply = read_chat(events, 0, endpoint.secret)
    if isinstance(reply, ModelFailed):
        return FormProbe("refused", detail=reply.detail, seconds=answer.seconds)
    return _read(reply, answer, _last_timings(events), path)


def _read(reply: ModelReplied, answer: Answer, timings: Json, path: str) -> FormProbe:
    native = any(isinstance(part, ToolCall) for part in reply.parts)
    read = with_calls(reply, AskModel(_VIEW, 1, 0))
    call = next((part for part in read.parts if isinstance(part, ToolCall)), None)
    text = " ".join(part.text for part in reply.parts if isinstance(part, Text))
    usage = reply.usage
    writing = answer.seconds - answer.first_seconds
    return FormProbe(
        "native call" if native else "call in the text" if call else "no call",
        call is not None and call.name == "read_file" and call.arguments == {"path": path},
        "" if call else one_line(text)[:200],
        answer.seconds,
        answer.first_seconds,
        usage.prompt or None,
        _count(timings, "cache_n") if timings else usage.cache_read or None,
        usage.output or None,
        _speed(timings, "prompt_per_second", usage.uncached, answer.first_seconds),
        _speed(timings, "predicted_per_second", usage.output, writing),
    )


def _speed(timings: Json, name: str, tokens: int, seconds: float) -> float | None:
    """Return llama.cpp's figure, or the measured speed; None below 20 tokens, which would be too imprecise."""
    if tokens < 20:
        return None
    reported = timings.get(name)
    if isinstance(reported, int | float) and reported > 0:
        return float(reported)
    return tokens / seconds if seconds > 0.05 else None


def _count(timings: Json, name: str) -> int | None:
    value = timings.get(name)
    return value if isinstance(value, int) and value >= 0 else None


def _last_timings(events: list[str]) -> Json:
    """Return the timings in llama.cpp's last event."""
    for event in reversed(events):
        if '"timings"' in event:
            try:
                value: Any = json.loads(event)
            except (ValueError, RecursionError):
                return {}
            timings = value.get("timings") if isinstance(value, dict) else None
            return timings if isinstance(timings, dict) else {}
    return {}
