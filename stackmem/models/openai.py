"""Any server of Chat Completions (vLLM, llama.cpp, Ollama, OpenAI), through the official SDK, an extra.

One call is one attempt, as in ``anthropic.py``. A field that the server refuses by name is left out from then on, in
the same attempt: which fields a server knows is found out, not a failure.
"""

from __future__ import annotations

import shlex
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.errors import UsageError

from .connection import Connection
from .endpoint import Endpoint, without_login
from .estimate import estimated_usage
from .event_stream import server_events
from .failures import cause, failed, kind_of_status
from .openai_messages import chat_body
from .openai_stream import read_chat

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
