"""Google's Gemini and compatible servers, through the official SDK, which is an optional extra.

One call is one attempt, as in ``anthropic.py``: the SDK's retries, function calls and continuations are disabled.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from importlib.util import find_spec
from logging import CRITICAL, getLogger
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.core.text import whole
from stackmem.foreign.installing import install_command
from stackmem.models.asked import NOTHING_ASKED, Asked
from stackmem.models.catalog import lookup
from stackmem.models.endpoint import GEMINI, Endpoint, without_login
from stackmem.models.tokens import estimated_usage
from stackmem.models.vision import vision_of
from stackmem.models.web_search import SearchAnswer

from .connection import Connection, trusted
from .event_stream import plain_events
from .failures import answered_with, cause, failed, kind_of_error, one_line, sentence, unanswered, web_page
from .gemini_messages import contents, declaration, read_chunks
from .images import Sight
from .json_text import MAX_TOKENS
from .mending.mediator import Learned, Mediator, noted
from .provider_context import as_sent
from .served import ASK_SECONDS
from .web_search import search_web

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.errors import APIError

WINDOW_TOKENS = 1_048_576
"""Window of all Gemini models since 2.5; a smaller model reports its window when asked."""
_REPLY_TOKENS = 32_000
_MAX_BYTES = 64 * 1024 * 1024
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""Errors that the SDK raises for malformed answers, including pydantic's and its own."""
_SIGNATURE = re.compile(r"thought[_ ]signature", re.IGNORECASE)
_MISSING = re.compile(r"missing|is required", re.IGNORECASE)
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


class GeminiModel:
    """A model behind the Gemini API.

    Attributes:
        window_tokens: Size of the window, for prompt and reply together.
        window_source: Readable source of the window size.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        window_tokens: int | None = None,
        seed: int | None = None,
        price: Price | None = None,
        asked: Asked = NOTHING_ASKED,
    ) -> None:
        """Prepare the model; the SDK is imported and the address resolved only by the first request.

        Missing values come from the model table, except for local servers, whose model names may mean anything.

        Raise UsageError if the SDK is not installed.
        """
        if find_spec("google") is None or find_spec("google.genai") is None:
            raise UsageError(f"gemini/NAME needs the google-genai package; install it: {install_command('gemini')}")
        self.name = f"gemini/{model}"  # includes the provider, as recorded in traces
        row = None if endpoint.is_local else lookup(self.name)
        self._knows_window = window_tokens is not None or row is not None
        if window_tokens is not None:
            self.window_tokens, self.window_source = window_tokens, "given by --window-tokens"
        elif row is not None:
            self.window_tokens, self.window_source = row.window_tokens, f"the table of models: {row.source}"
        else:
            self.window_tokens, self.window_source = WINDOW_TOKENS, "that of Gemini's models; give --window-tokens"
        self.price = price or (row.price if row else None)  # None if neither the user nor the table states it
        self.vision = vision_of(self.name, asked.vision)  # None if the model cannot see images
        self._model = model
        self._endpoint = endpoint
        self._most_output = min(_REPLY_TOKENS, row.max_output_tokens if row else _REPLY_TOKENS)
        self._options = asked
        self._seed = seed
        self._signed, self._filled = True, False
        self._refusals: list[tuple[Any, ModelFailed]] = []  # what was sent for the current request and refused
        self._mediator = Mediator(own_ids=False)
        self._client: Client | None = None
        self._connection: Connection | None = None

    def ask_server(self) -> None:
        """Ask the server for the window size, unless the user or the table states it.

        Raise UsageError if no server answers at the address.
        """
        if self._knows_window:
            return
        client, connection = self._connected()
        import httpx2
        from google.genai import errors

        try:
            with connection.time_limit(ASK_SECONDS):
                described = client.models.get(model=self._model)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            address, reason = without_login(self._endpoint.url), one_line(cause(error), self._endpoint.secret)
            raise UsageError(
                f"no server answers at {address} ({reason}); start it, or pass another address with --base-url"
            ) from error
        except (errors.APIError, httpx2.HTTPError, OSError, *_MALFORMED):
            return
        if described.input_token_limit is not None and 1_000 <= described.input_token_limit <= MAX_TOKENS:
            self.window_tokens, self.window_source = described.input_token_limit, "said by the server"

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Make one attempt; Ctrl-C interrupts it immediately."""
        self._refusals = []
        sent = as_sent(request, self.name)
        if isinstance(sent, ModelFailed):
            return sent
        self._connected()  # importing the SDK takes seconds, which must not count against the server
        return self._mediator.reply(sent, self._answer)

    def search(self, query: str, domains: tuple[str, ...]) -> SearchAnswer:
        """Search the web with the provider's server tool."""
        return search_web(self.name, self._endpoint, self._options.headers, query, domains)

    def _answer(self, request: AskModel, _: Learned) -> ModelReplied | ModelFailed:
        answer = self._attempt(request, time.monotonic() + self._endpoint.attempt_seconds(request.left_seconds))
        answer = Sight(request.view, self.vision, request.image).noted(answer)
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _attempt(self, request: AskModel, deadline: float) -> ModelReplied | ModelFailed:
        """Send the request; retry once if a thought signature is missing, or if the server refuses a foreign one."""
        client, connection = self._connected()
        import httpx2
        from google.genai import errors

        secret = self._endpoint.secret
        sight = Sight(request.view, self.vision, request.image)
        sent: tuple[Any, Any] = (
            contents(request.view, signed=self._signed, filled=self._filled, sight=sight),
            self._config(request),
        )
        refusal = next((refused for body, refused in self._refusals if body == sent), None)
        if refusal is not None:
            return refusal  # the change made no difference to this request
        try:
            with connection.time_limit(max(0.0, deadline - time.monotonic())):
                chunks = client.models.generate_content_stream(model=self._model, contents=sent[0], config=sent[1])
                answer = read_chunks(chunks, request.facts)
            return connection.in_time(answer)
        except errors.APIError as error:
            refused = self._refused(error)
            self._refusals.append((sent, refused))
            if error.code == 400 and self._learns(sentence(error.details)):
                answer = self._attempt(request, deadline)
                if answer is refused:
                    return answer
                note = (
                    f"changed the signatures of calls, because the server refused the request: {refused.detail[:300]}"
                )
                return replace(answer, mended=(note, *noted(answer)))
            return connection.in_time(refused)
        except (httpx2.TimeoutException, TimeoutError) as error:
            return connection.in_time(unanswered("timeout", self._endpoint, error))
        except (httpx2.HTTPError, OSError) as error:
            return connection.in_time(unanswered("connection", self._endpoint, error))
        except _MALFORMED as error:
            page = str(error).partition("Raw response: ")[2]
            if page.lstrip().startswith("<"):
                return web_page(page, secret)
            return connection.in_time(failed("incomplete", f"the reply's stream is malformed: {error}", secret))

    def _config(self, request: AskModel) -> Any:
        """Build the request's configuration, with all automatic behavior of the SDK disabled."""
        from google.genai import types

        options, view = self._options, request.view
        tools = [{"function_declarations": [declaration(tool) for tool in view.tools]}] if view.tools else None
        return types.GenerateContentConfig.model_validate({
            "system_instruction": whole(view.system) if view.system.strip() else None,
            "tools": tools,
            "max_output_tokens": min(
                self._most_output, self.window_tokens // 4, request.reply_tokens or self._most_output
            ),
            "temperature": options.temperature,
            "seed": self._seed,
            "thinking_config": {"thinking_level": options.effort.upper()} if options.effort else None,
            "service_tier": options.service_tier,
            "automatic_function_calling": {"disable": True},
            "automatic_continuation": False,
        })  # fmt: skip

    def _learns(self, refusal: str) -> bool:
        """Return whether a refusal concerns signatures, and changed settings may help."""
        if not _SIGNATURE.search(refusal):
            return False
        before = (self._signed, self._filled)
        self._signed, self._filled = self._signed and _MISSING.search(refusal) is not None, True
        return before != (self._signed, self._filled)

    def _refused(self, error: APIError) -> ModelFailed:
        """Convert an error answer; errors inside a stream have no status."""
        secret, details = self._endpoint.secret, error.details
        response: Any = error.response
        text = json.dumps(details)
        if response is None or not hasattr(response, "reason_phrase"):
            kind = kind_of_error(str(error.status or ""), text)
            refused = failed(kind, f"an error in mid-stream: {sentence(details) or text}", secret)
        else:
            refused = answered_with(response, response.text, secret)
        if "API_KEY_INVALID" in text:
            refused = replace(refused, kind="authentication")
        wait = _retry_delay(details)
        return refused if wait is None else replace(refused, retry_after_seconds=wait)

    def _connected(self) -> tuple[Client, Connection]:
        """Return the client. It ignores the environment except for proxies; address and key come from the endpoint."""
        if self._client is None or self._connection is None:
            import httpx2

            warnings.filterwarnings("ignore", module=r"google\.genai")  # these warnings repeat server output
            getLogger("google_genai").setLevel(CRITICAL)
            from google import genai
            from google.genai import types

            there = self._endpoint
            self._connection = Connection(
                httpx2.Client, there.connect_seconds, there.silence_seconds, most_bytes=_MAX_BYTES, read=plain_events
            )
            self._client = genai.Client(
                api_key=there.key,
                vertexai=False,
                http_options=types.HttpOptions(
                    base_url=there.url,
                    api_version=GEMINI.path.strip("/"),
                    headers=dict(self._options.headers),
                    httpx_client=self._connection.client,
                    # Otherwise the SDK loads the certificates three more times, for clients that are never used.
                    client_args={"verify": trusted()},
                    async_client_args={"verify": trusted(), "ssl": trusted()},
                    retry_options=types.HttpRetryOptions(attempts=1),
                ),
            )
        return self._client, self._connection


def _retry_delay(details: Any) -> float | None:
    """Return the delay in seconds from ``google.rpc.RetryInfo`` (``34.07s``); None without one."""
    error = details.get("error", details) if isinstance(details, dict) else {}
    entries = error.get("details") if isinstance(error, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        delay = entry.get("retryDelay") if isinstance(entry, dict) else None
        if isinstance(delay, str) and (match := _SECONDS.fullmatch(delay)):
            return float(match.group(1))
    return None
