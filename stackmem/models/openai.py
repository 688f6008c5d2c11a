"""Any server of Chat Completions (vLLM, llama.cpp, Ollama, OpenAI), through the official SDK, an extra.

One call is one attempt, as in ``anthropic.py``. A field that the server refuses by name is left out from then on, in
the same attempt: which fields a server knows is found out, not a failure. A stream without a finish reason is no reply.
"""

from __future__ import annotations

import shlex
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.errors import UsageError

from .connection import Connection
from .endpoint import Endpoint, without_login
from .event_stream import server_events
from .failures import answered_with, cause, failed, leaves_no_room
from .openai_messages import Extras, chat_body
from .openai_stream import read_chat
from .tokens import estimated_usage

if TYPE_CHECKING:
    from openai import OpenAI


WINDOW_TOKENS = 32_768
_REPLY_TOKENS = 32_000
_LIMITS = ("max_completion_tokens", "max_tokens")
"""What the longest reply is called, by the newer servers first; the next is tried where one is refused."""
_OPTIONAL = ("parallel_tool_calls", "stream_options", "seed", *_LIMITS)


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
        self._extras = Extras()
        self._client: OpenAI | None = None
        self._connection: Connection | None = None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """One attempt. Ctrl-C goes through at once."""
        answer = self._attempt(request)
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _attempt(self, request: AskModel, *, limited: bool = True) -> ModelReplied | ModelFailed:
        """Ask; without a limit of the reply where the server says that prompt and reply together are too long."""
        client, connection = self._connected()
        import httpx2
        import openai

        secret = self._endpoint.secret
        seconds = self._endpoint.reply_seconds
        deadline = time.monotonic() + seconds
        create = client.chat.completions.with_streaming_response.create
        body = chat_body(request.view, self._model, self._extras)
        if self._seed is not None:
            body["seed"] = self._seed
        sent = {name: value for name, value in body.items() if name not in self._refused}
        limit = next((name for name in _LIMITS if name not in self._refused), None) if limited else None
        if limit is not None:
            sent[limit] = self._max_tokens
        try:
            with connection.within(seconds), create(**sent, stream=True) as response:
                answer = read_chat(server_events(response.http_response.iter_bytes(), deadline), request.facts, secret)
            return connection.in_time(answer)
        except openai.APIStatusError as error:
            text = error.response.text
            if error.status_code in {400, 413, 422} and limit is not None and leaves_no_room(text):
                return self._attempt(request, limited=False)
            unknown = {name for name in _OPTIONAL if name in sent and name in text}
            if error.status_code in {400, 422} and unknown:
                self._refused |= {limit} if limit in unknown else unknown
                return self._attempt(request)
            extras = self._extras.after(text) if error.status_code in {400, 422} else self._extras
            if extras != self._extras:
                self._extras = extras
                return self._attempt(request)
            return answered_with(error.response, text, secret)
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
