"""Any server of Chat Completions (vLLM, llama.cpp, Ollama, OpenAI), through the official SDK, an extra.

One call is one attempt, as in ``anthropic.py``. A field that the server refuses by name is left out from then on, in
the same attempt: which fields a server knows is found out, not a failure. A stream without a finish reason is no reply.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert

from stackmem.core.facts import ModelFailed, ModelReplied, Stop
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, Usage
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.core.text import whole
from stackmem.errors import UsageError

from .connection import Connection
from .endpoint import Endpoint, without_login
from .event_stream import server_events
from .failures import cause, failed, kind_of_error, kind_of_status
from .json_text import MOST_TOKENS, parse_arguments
from .openai_messages import FOREIGN_THOUGHT, chat_body
from .tokens import estimated_usage

if TYPE_CHECKING:
    from openai import OpenAI


WINDOW_TOKENS = 32_768
_REPLY_TOKENS = 32_000
_OPTIONAL = ("parallel_tool_calls", "stream_options", "max_completion_tokens", "seed")


class OpenAIModel:
    """A model behind the Chat Completions API.

    Attributes:
        name: With the provider before it, as the trace records it.
        window_tokens: Prompt and reply together.
        price: None, always: who runs the server knows.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """The default window is 32,768 tokens, the longest reply a quarter of the window, at most 32,000.

        Raises:
            UsageError: The SDK is not installed.
        """
        if find_spec("openai") is None:
            install = f"{shlex.quote(sys.executable)} -m pip install 'openai>=3,<4'"
            raise UsageError(f"openai/NAME needs the openai package; install it with: {install}")
        self.name = f"openai/{model}"
        self.window_tokens = window_tokens or WINDOW_TOKENS
        self.price: Price | None = None
        self._model = model
        self._endpoint = endpoint
        self._max_tokens = max_output_tokens or min(_REPLY_TOKENS, self.window_tokens // 4)
        self._seed = seed
        self._refused: frozenset[str] = frozenset()
        self._client: OpenAI | None = None
        self._connection: Connection | None = None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """One attempt. Ctrl-C goes through at once."""
        body = chat_body(request.view, self._model, self._max_tokens)
        if self._seed is not None:
            body["seed"] = self._seed
        answer = self._attempt(body, request.facts)
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _attempt(self, body: dict[str, Any], facts: int) -> ModelReplied | ModelFailed:
        client, connection = self._connected()
        import httpx2
        import openai

        secret = self._endpoint.secret
        seconds = self._endpoint.reply_seconds
        deadline = time.monotonic() + seconds
        create = client.chat.completions.with_streaming_response.create
        sent = {name: value for name, value in body.items() if name not in self._refused}
        try:
            with connection.within(seconds), create(**sent, stream=True) as response:
                answer = read_chat(server_events(response.http_response.iter_bytes(), deadline), facts, secret)
            return connection.in_time(answer)
        except openai.APIStatusError as error:
            text = f"{error.message} {error.body}"
            unknown = {name for name in _OPTIONAL if name in sent and name in text}
            if error.status_code in {400, 422} and unknown:
                self._refused |= unknown
                return self._attempt(body, facts)
            return failed(
                kind_of_status(error.status_code, text),
                f"HTTP {error.status_code}: {_told(error.body) or error.message}",
                secret,
                error.response.headers,
            )
        except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
            return failed("timeout", f"{without_login(self._endpoint.url)}: {error or 'no answer in time'}", secret)
        except (openai.APIConnectionError, httpx2.HTTPError, OSError) as error:
            return connection.in_time(
                failed("connection", f"{without_login(self._endpoint.url)}: {cause(error)}", secret)
            )
        except openai.OpenAIError as error:
            return failed("rejected", str(error), secret)

    def _connected(self) -> tuple[OpenAI, Connection]:
        """The client, which takes nothing but the address, the key and proxies from any environment."""
        if self._client is None or self._connection is None:
            import openai

            there = self._endpoint
            self._connection = Connection(openai.DefaultHttpxClient, there.connect_seconds, there.silence_seconds)
            http = self._connection.client
            self._client = openai.OpenAI(
                api_key=there.key, base_url=there.url, max_retries=0, timeout=http.timeout, http_client=http
            )
        return self._client, self._connection


def _told(body: object) -> str:
    """What the server's error says, without the SDK's words around it."""
    return str(body.get("message") or "") if isinstance(body, dict) else ""


_DONE = "[DONE]"
_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "call",
    "function_call": "call",
    "length": "truncated",
    "content_filter": "refused",
}


class _ChunkFunction(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _ChunkFunction | None = None


class _ChunkDelta(Struct):
    """Servers name a thought in two ways."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(Struct):
    delta: _ChunkDelta | None = None
    finish_reason: str | None = None


class _TokenDetails(Struct):
    cached_tokens: int | None = None


class _ChatUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _TokenDetails | None = None


class _Chunk(Struct):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: _ChatUsage | None = None
    error: dict[str, Any] | str | None = None


class _ChunkCall(Struct):
    id: str
    name: str
    arguments: list[str]


class _ChatReply(Struct):
    texts: list[str]
    thoughts: list[str]
    refusals: list[str]
    calls: dict[int, _ChunkCall]
    usage: Usage = Usage()
    id: str = ""
    finish_reason: str | None = None
    error: ModelFailed | None = None


def read_chat(events: Iterable[str], facts: int, secret: str = "") -> ModelReplied | ModelFailed:
    """The reply, or the failure where the stream carries an error, is malformed, or ends early.

    A call without an id is named after ``facts``, so that its result can be paired with it.
    """
    reply = _ChatReply([], [], [], {})
    try:
        for text in events:
            if text.strip() == _DONE:
                break
            _take(reply, convert(json.loads(text), _Chunk), secret)
            if reply.error is not None:
                return reply.error
    except (ValidationError, ValueError, RecursionError) as error:
        return failed("incomplete", f"the reply's stream is malformed: {error}", secret)
    if reply.finish_reason is None:
        return failed("incomplete", "the reply's stream ended before its end was announced")
    refusal = whole("".join(reply.refusals))
    known = _STOPS.get(reply.finish_reason)
    stop: Stop = "call" if reply.calls and known in {None, "end"} else known or "end"
    return ModelReplied(
        parts=_parts(reply, facts),
        stop="refused" if refusal else stop,
        usage=reply.usage,
        detail=refusal[:500] or ("" if known else f"finish reason {reply.finish_reason!r:.80}"),
        reply_id=whole(reply.id)[:200],
    )


def _take(reply: _ChatReply, chunk: _Chunk, secret: str) -> None:
    if chunk.error is not None:
        reply.error = _failure(chunk.error, secret)
        return
    reply.id = chunk.id or reply.id
    if chunk.usage is not None:
        reply.usage = _counted(chunk.usage)
    for choice in (chunk.choices or [])[:1]:
        reply.finish_reason = choice.finish_reason or reply.finish_reason
        delta = choice.delta or _ChunkDelta()
        reply.texts.append(delta.content or "")
        reply.thoughts.append(delta.reasoning_content or delta.reasoning or "")
        reply.refusals.append(delta.refusal or "")
        for call in delta.tool_calls or []:
            _grow(reply.calls, call)


def _grow(calls: dict[int, _ChunkCall], delta: _CallDelta) -> None:
    """Add a piece of a call; where a server numbers none, an id begins the next one."""
    index = delta.index
    if index is None:
        index = len(calls) if delta.id or not calls else len(calls) - 1
    call = calls.setdefault(index, _ChunkCall("", "", []))
    function = delta.function or _ChunkFunction()
    call.id = call.id or delta.id or ""
    call.name = call.name or function.name or ""
    given = function.arguments
    call.arguments.append(json.dumps(given) if isinstance(given, dict) else given or "")


def _parts(reply: _ChatReply, facts: int) -> tuple[ReplyPart, ...]:
    parts: list[ReplyPart] = []
    if thought := whole("".join(reply.thoughts)):
        parts.append(Thinking({"type": FOREIGN_THOUGHT, "thinking": thought}))
    if text := whole("".join(reply.texts)):
        parts.append(Text(text))
    for index in sorted(reply.calls):
        call, arguments = reply.calls[index], "".join(reply.calls[index].arguments)
        value, malformed = parse_arguments(arguments)
        if not arguments.strip() and reply.finish_reason == "length":
            value, malformed = None, ""
        parts.append(ToolCall(whole(call.id) or f"call_{facts}_{index}", whole(call.name), value, malformed))
    return tuple(parts)


def _counted(usage: _ChatUsage) -> Usage:
    prompt = _tokens(usage.prompt_tokens)
    cached = min(_tokens((usage.prompt_tokens_details or _TokenDetails()).cached_tokens), prompt)
    return Usage(uncached=prompt - cached, cache_read=cached, output=_tokens(usage.completion_tokens))


def _tokens(count: int | None) -> int:
    """The count; 0 where it is none."""
    return count if count is not None and 0 <= count <= MOST_TOKENS else 0


def _failure(error: dict[str, Any] | str, secret: str) -> ModelFailed:
    text = error if isinstance(error, str) else json.dumps(error)
    fields = {} if isinstance(error, str) else error
    code = fields.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        kind = kind_of_status(code, text)
    else:
        kind = kind_of_error(str(fields.get("type", "")), text)
    return failed(kind, f"an error in mid-stream: {fields.get('message') or text}", secret)
