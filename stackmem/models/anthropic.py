"""Claude, and any other server of the Messages API, through the official SDK.

One call is one attempt: what fails is a fact with a kind, and the machine decides whether to ask again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel

from .anthropic_request import request_body
from .anthropic_stream import read_reply
from .catalog import lookup
from .connection import Connection
from .endpoint import Endpoint, without_login
from .estimate import estimated_usage
from .event_stream import server_events
from .failures import cause, failed, kind_of_status

if TYPE_CHECKING:
    from anthropic import Anthropic

WINDOW_TOKENS = 200_000
_REPLY_TOKENS = 32_000


class AnthropicModel:
    """A model behind the Messages API.

    Attributes:
        name: With the provider before it, as the trace records it.
        window_tokens: Prompt and reply together.
        price: None where the table does not know it.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        """The SDK is imported, and the address looked up, only by the first request.

        The default window is the table's, or 200,000 tokens where the model is not in it; the longest reply is 32,000
        tokens, or less where the model gives or holds less.
        """
        row = lookup(model)
        self.name = f"anthropic/{model}"
        self.window_tokens = window_tokens or (row.window_tokens if row else WINDOW_TOKENS)
        self.price: Price | None = row.price if row else None
        self._model = model
        self._endpoint = endpoint
        self._thinking = row.thinking if row else None
        most = min(_REPLY_TOKENS, row.max_output_tokens if row else _REPLY_TOKENS, self.window_tokens // 4)
        self._max_tokens = max_output_tokens or most
        self._client: Anthropic | None = None
        self._connection: Connection | None = None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """One attempt. Ctrl-C goes through at once."""
        body = request_body(request.view, self._model, self._max_tokens, self._thinking)
        answer = self._attempt(body)
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _attempt(self, body: dict[str, Any]) -> ModelReplied | ModelFailed:
        import anthropic  # more than a second
        import httpx2

        secret = self._endpoint.secret
        client, connection = self._connected()
        seconds = self._endpoint.reply_seconds
        deadline = time.monotonic() + seconds
        create = client.messages.with_streaming_response.create
        try:
            with connection.within(seconds), create(**body, stream=True) as response:
                answer = read_reply(server_events(response.http_response.iter_bytes(), deadline), secret)
            return connection.in_time(answer)
        except anthropic.APIStatusError as error:
            text = f"{error.message} {error.body}"
            detail = f"HTTP {error.status_code}: {error.api_message or error.message}"
            return failed(kind_of_status(error.status_code, text), detail, secret, error.response.headers)
        except (anthropic.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
            return failed("timeout", f"{without_login(self._endpoint.url)}: {error or 'no answer in time'}", secret)
        except (anthropic.APIConnectionError, httpx2.HTTPError, OSError) as error:
            return connection.in_time(
                failed("connection", f"{without_login(self._endpoint.url)}: {cause(error)}", secret)
            )
        except anthropic.AnthropicError as error:
            return failed("rejected", str(error), secret)

    def _connected(self) -> tuple[Anthropic, Connection]:
        """The client, which takes nothing but the address, the key and proxies from any environment."""
        if self._client is None or self._connection is None:
            import anthropic

            there = self._endpoint
            self._connection = Connection(anthropic.DefaultHttpxClient, there.connect_seconds, there.silence_seconds)
            http = self._connection.client
            self._client = anthropic.Anthropic(
                api_key=there.key, base_url=there.url, max_retries=0, timeout=http.timeout, http_client=http
            )
        return self._client, self._connection
