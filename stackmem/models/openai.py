"""Any server of Chat Completions (vLLM, llama.cpp, Ollama, OpenAI), through the official SDK, an extra.

One call is one attempt, as in ``anthropic.py``. A field that the server refuses by name is left out from then on, in
the same attempt: which fields a server knows is found out, not a failure. A stream without a finish reason is no reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage, View
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.errors import UsageError
from stackmem.installing import install_command

from .asked import NOTHING_ASKED, Asked
from .calls.held_words import HeldWords
from .calls.text_calls import as_text, with_calls
from .catalog import lookup
from .connection import Connection
from .endpoint import OPENAI, Endpoint, without_login
from .event_stream import server_events
from .failures import answered_with, failed, leaves_no_room, unanswered
from .openai_messages import Extras, chat_body
from .openai_responses import read_response, responses_body
from .openai_stream import read_chat
from .served import ask_ollama, ask_server
from .spoken import overheard
from .tokens import estimated_usage

if TYPE_CHECKING:
    from openai import OpenAI


WINDOW_TOKENS = 32_768
LEAST_WINDOW_TOKENS = 1_000
_REPLY_TOKENS = 32_000
_OPTIONAL = ("parallel_tool_calls", "stream_options", "seed", "include")


class Wire(Struct, frozen=True):
    """One of OpenAI's two protocols.

    Attributes:
        prefix: Of the names of models that speak it.
        limits: What the longest reply is called, by the newer servers first; the next is tried where one is refused.
        effort: What a request calls the effort.
    """

    prefix: str
    limits: tuple[str, ...]
    body: Callable[[View, str, Extras], dict[str, Any]]
    read: Callable[[Iterable[str], int, str], ModelReplied | ModelFailed]
    effort: Callable[[str], dict[str, Any]]


CHAT = Wire(
    "openai", ("max_completion_tokens", "max_tokens"), chat_body, read_chat, lambda effort: {"reasoning_effort": effort}
)
RESPONSES = Wire(
    "responses", ("max_output_tokens",), lambda view, model, _: responses_body(view, model), read_response,
    lambda effort: {"reasoning": {"effort": effort}},
)  # fmt: skip


class OpenAIModel:
    """A model behind the Chat Completions API, or the Responses API.

    Attributes:
        name: With the provider before it, as the trace records it.
        window_tokens: Prompt and reply together.
        window_source: Who says so, as a person reads it.
        price: None where neither the person, the server nor the table says it.
        parameters: How many the model has, if its server says so.
    """

    parameters: int | None = None

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        seed: int | None = None,
        price: Price | None = None,
        asked: Asked = NOTHING_ASKED,
        wire: Wire = CHAT,
        prefix: str = "",
    ) -> None:
        """What is not given is the table's, unless the server is on this machine, where a name says nothing.

        A window of which nobody says anything is 32,768 tokens; the longest reply is a quarter of the window, at most
        32,000 tokens, or what the table knows.

        Raises:
            UsageError: The SDK is not installed.
        """
        if find_spec("openai") is None:
            raise UsageError(f"{wire.prefix}/NAME needs the openai package; install it: {install_command('openai')}")
        self.name = f"{prefix or wire.prefix}/{model}"
        self._wire = wire
        row = None if endpoint.is_local else lookup(self.name)
        if window_tokens is not None:
            self.window_tokens, self.window_source = window_tokens, "given by --window-tokens"
        elif row is not None:
            self.window_tokens, self.window_source = row.window_tokens, f"the table of models: {row.source}"
        else:
            self.window_tokens, self.window_source = WINDOW_TOKENS, "a cautious guess; give --window-tokens"
        self.price = price or (row.price if row else None)
        self._given = (window_tokens is not None, price is not None)
        self._model = model
        self._endpoint = endpoint
        self._most_output = max_output_tokens or min(_REPLY_TOKENS, row.max_output_tokens if row else _REPLY_TOKENS)
        self._asked = asked
        self._extra = {
            "seed": seed,
            "temperature": asked.temperature,
            "service_tier": asked.service_tier,
            **(wire.effort(asked.effort) if asked.effort else {}),
        }
        self._refused: frozenset[str] = frozenset()
        self._extras = Extras()
        self._client: OpenAI | None = None
        self._connection: Connection | None = None

    def ask_server(self) -> None:
        """Take from the server's list of models what the person did not give; OpenAI's own says nothing there.

        Raises:
            UsageError: Nobody answers at the address, or the window that the server has holds no prompt.
        """
        if self._endpoint.url == OPENAI.default_url + OPENAI.path:
            return
        served = ask_server(self._endpoint, self._model, headers=self._asked.headers)
        self.parameters = served.parameters
        if self.parameters is None and self.name.startswith("ollama/"):
            self.parameters = ask_ollama(self._endpoint, self._model)
        window_given, price_given = self._given
        if served.window_tokens is not None and not window_given:
            self.window_tokens, self.window_source = served.window_tokens, "said by the server"
        if served.price is not None and not price_given:
            self.price = served.price
        if self.window_tokens < LEAST_WINDOW_TOKENS:
            raise UsageError(
                f"the window of {self.window_tokens:,} tokens that {without_login(self._endpoint.url)} has for "
                f"{self._model} leaves no room for a reply; start it with a larger one"
            )

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """One attempt. Ctrl-C goes through at once."""
        answer = self._attempt(request, time.monotonic() + self._endpoint.attempt_seconds(request.left_seconds))
        if isinstance(answer, ModelReplied) and self._asked.text_calls != "off":
            answer = with_calls(answer, request)
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _passed_on(self, request: AskModel) -> Callable[[str], str] | None:
        """What holds back words that may become a call; None if calls are not read from text."""
        if self._asked.text_calls == "off" or request.expects == "text":
            return None
        return HeldWords([tool.name for tool in request.view.tools]).pass_on

    def _attempt(self, request: AskModel, deadline: float, *, limited: bool = True) -> ModelReplied | ModelFailed:
        """Ask; without a limit of the reply where the server says that prompt and reply together are too long."""
        client, connection = self._connected()
        import httpx2
        import openai

        secret = self._endpoint.secret
        seconds = max(0.0, deadline - time.monotonic())
        speech: Any = client.chat.completions if self._wire is CHAT else client.responses
        create = speech.with_streaming_response.create
        body = self._wire.body(request.view, self._model, self._extras)
        body |= {name: value for name, value in self._extra.items() if value is not None}
        if self._asked.text_calls == "prompt":
            body = as_text(body)
        sent = {name: value for name, value in body.items() if name not in self._refused}
        limit = next((name for name in self._wire.limits if name not in self._refused), None) if limited else None
        if limit is not None:
            sent[limit] = min(self._most_output, self.window_tokens // 4, request.reply_tokens or self._most_output)
        try:
            with connection.within(seconds), create(**sent, stream=True) as response:
                events = overheard(
                    server_events(response.http_response.iter_bytes(), deadline), self._passed_on(request)
                )
                answer = self._wire.read(events, request.facts, secret)
            return connection.in_time(answer)
        except openai.APIStatusError as error:
            text = error.response.text
            if error.status_code in {400, 413, 422} and limit is not None and leaves_no_room(text):
                return self._attempt(request, deadline, limited=False)
            unknown = {name for name in (*_OPTIONAL, *self._wire.limits) if name in sent and name in text}
            if error.status_code in {400, 422} and unknown:
                self._refused |= {limit} if limit in unknown else unknown
                return self._attempt(request, deadline)
            extras = self._extras.after(text) if error.status_code in {400, 422} else self._extras
            if extras != self._extras:
                self._extras = extras
                return self._attempt(request, deadline)
            return answered_with(error.response, text, secret)
        except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
            return connection.in_time(unanswered("timeout", self._endpoint, error))
        except (openai.APIConnectionError, httpx2.HTTPError, OSError) as error:
            return connection.in_time(unanswered("connection", self._endpoint, error))
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
                api_key=there.key,
                base_url=there.url,
                max_retries=0,
                timeout=http.timeout,
                http_client=http,
                default_headers=dict(self._asked.headers),
            )
        return self._client, self._connection
