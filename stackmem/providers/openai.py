"""Chat Completions servers (vLLM, llama.cpp, Ollama, OpenAI) through the official SDK, an optional extra.

One call is one attempt, as in ``anthropic.py``. If a server refuses a field by name, the same attempt repeats
without it, and later requests leave it out too: discovering what a server supports is not a failure. A stream
without a finish reason is not a reply. The readers of calls in text are imported on use: their patterns take longer
to compile than the rest of this module to load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import OPENAI_SUMMARY, Thinking, ToolCall, Usage, View
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.foreign.installing import install_command
from stackmem.models.asked import NOTHING_ASKED, Asked
from stackmem.models.catalog import lookup
from stackmem.models.endpoint import OPENAI, Endpoint, without_login
from stackmem.models.local_servers import ASSUMED_FREE
from stackmem.models.registry import MIN_WINDOW_TOKENS
from stackmem.models.spoken import overheard
from stackmem.models.tokens import estimated_usage, prompt_chars
from stackmem.models.vision import vision_of
from stackmem.models.web_search import SearchAnswer

from .connection import Connection, CutReply
from .event_stream import server_events
from .failures import answered_with, failed, kind_of_status, leaves_no_room, one_line, unanswered
from .images import Sight
from .mending.mediator import Learned, Mediator, noted
from .openai_compaction import compacted
from .openai_messages import Extras, chat_body
from .openai_responses import read_response, responses_body
from .openai_stream import read_chat
from .provider_context import as_sent
from .served import ask_ollama, ask_server, served_names
from .server.small_requests import count_prompt
from .web_search import search_web

if TYPE_CHECKING:
    from openai import OpenAI

Json = dict[str, Any]


def _as_text(body: Json) -> Json:
    """Describe the tools in the system prompt."""
    from .calls.text_calls import as_text

    return as_text(body)


WINDOW_TOKENS = 32_768
_REPLY_TOKENS = 32_000
MAX_TOKEN_CHARS = 6
"""Characters of prompt per counted token above which the server must have dropped a part; usual are 2 to 5."""
_UNLIMITED = "sent the request without a limit of the reply"
_EXTRA = ("return_progress",)
"""Fields that are not part of OpenAI's API; the SDK takes them separately."""
_OPTIONAL = ("parallel_tool_calls", "stream_options", "seed", "include", "return_progress")


class Wire(Struct, frozen=True):
    """One of OpenAI's two protocols."""

    prefix: str  # prefix of model names
    # names of the reply limit, newest first; if one is refused, the next one is tried
    limits: tuple[str, ...]
    body: Callable[[View, str, Extras, Sight | None], dict[str, Any]]
    read: Callable[[Iterable[str], int, str], ModelReplied | ModelFailed]
    effort: Callable[[str], dict[str, Any]]  # builds the field for the effort


CHAT = Wire(
    "openai", ("max_completion_tokens", "max_tokens"), chat_body, read_chat, lambda effort: {"reasoning_effort": effort}
)
RESPONSES = Wire(
    "responses", ("max_output_tokens",), lambda view, model, _, sight: responses_body(view, model, sight),
    read_response, lambda effort: {"reasoning": {"effort": effort}},
)  # fmt: skip


class OpenAIModel:
    """A model behind the Chat Completions or Responses API.

    Attributes:
        window_tokens: Size of the window, for prompt and reply together.
        window_source: Readable source of the window size.
    """

    parameters: int | None = None  # number of parameters, if the server reports it

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
        """Missing values come from the model table, except for local servers, whose model names may mean anything.

        An unknown window is assumed to be 32,768 tokens. Replies are limited to a quarter of the window, and to
        32,000 tokens or the table's limit. Raise UsageError if the SDK is not installed.
        """
        if find_spec("openai") is None:
            provider, command = prefix or wire.prefix, install_command("openai")
            raise UsageError(f"{provider}/NAME needs the openai package; install it: {command}")
        self.name = f"{prefix or wire.prefix}/{model}"  # includes the provider, as recorded in traces
        self._wire = wire
        row = None if endpoint.is_local else lookup(self.name)
        if window_tokens is not None:
            self.window_tokens, self.window_source = window_tokens, "given by --window-tokens"
        elif row is not None:
            self.window_tokens, self.window_source = row.window_tokens, f"the table of models: {row.source}"
        else:
            self.window_tokens, self.window_source = WINDOW_TOKENS, "a cautious guess; give --window-tokens"
        # None if neither the user, the server nor the table states it
        self.price = price or (ASSUMED_FREE if endpoint.is_local else row.price if row else None)
        self.vision = vision_of(self.name, asked.vision)  # None if the model cannot see images
        self._user_set = (window_tokens is not None, price is not None)
        self._model = model
        self._endpoint = self.address = endpoint
        self._most_output = max_output_tokens or min(_REPLY_TOKENS, row.max_output_tokens if row else _REPLY_TOKENS)
        self._options = asked
        self._extra = {
            "seed": seed,
            "temperature": asked.temperature,
            "service_tier": asked.service_tier,
            **(wire.effort(asked.effort) if asked.effort else {}),
        }
        self._refused: frozenset[str] = frozenset()
        self._writes_text = self._schema_sent = False
        self._extras = Extras()
        self._changes: list[str] = []  # changes after refusals of the current request
        self._refusals: list[tuple[Json, ModelFailed]] = []  # what was sent for it and refused
        self._mediator = Mediator()
        self._client: OpenAI | None = None
        self._connection: Connection | None = None

    def ask_server(self) -> None:
        """Fill missing values from the server's model list; OpenAI's own list contains none.

        Raise UsageError if no server answers at the address, or its context window is too small for a prompt.
        """
        if self._endpoint.url == OPENAI.default_url + OPENAI.path:
            return
        served = ask_server(self._endpoint, self._model, headers=self._options.headers)
        self.parameters = served.parameters
        if self.parameters is None and self.name.startswith("ollama/"):
            self.parameters = ask_ollama(self._endpoint, self._model)
        window_given, price_given = self._user_set
        if served.window_tokens is not None and not window_given:
            self.window_tokens, self.window_source = served.window_tokens, "said by the server"
        if served.price is not None and not price_given:
            self.price = served.price
        if self.window_tokens < MIN_WINDOW_TOKENS:
            raise UsageError(
                f"the window of {self.window_tokens:,} tokens for {self._model} at {without_login(self._endpoint.url)} "
                "leaves no room for a reply; start the server with a larger window"
            )

    def search(self, query: str, domains: tuple[str, ...]) -> SearchAnswer:
        """Search the web with the provider's server tool, which only the Responses API has."""
        return search_web(self.name, self._endpoint, self._options.headers, query, domains)

    @property
    def served_name(self) -> str:
        """The model's name on its server, without a prefix."""
        return self._model

    def count_prompt(self, view: View) -> int | None:
        """Count a prompt with the server's tokenizer; None if it has none or is not local."""
        if not self._endpoint.is_local or self._wire is not CHAT:
            return None
        body = self._wire.body(view, self._model, self._extras, None)
        if self._options.text_calls == "prompt":
            body = _as_text(body)
        return count_prompt(self._endpoint, body, self._options.headers)

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Make one attempt; Ctrl-C interrupts it immediately."""
        self._refusals = []
        reads = OPENAI_SUMMARY if self._wire is RESPONSES else ""
        sent = as_sent(request, self.name, reads=reads)
        return sent if isinstance(sent, ModelFailed) else self._mediator.reply(sent, self._answer)

    def _answer(self, request: AskModel, _: Learned) -> ModelReplied | ModelFailed:
        if request.view.provider is not None and request.view.provider.summarizes:
            body = self._wire.body(request.view, self._model, self._extras, Sight(request.view, None, request.image))
            return compacted(*self._connected(), self._endpoint, body, request.left_seconds)
        self._changes = []
        answer = self._attempt(request, time.monotonic() + self._endpoint.attempt_seconds(request.left_seconds))
        answer = Sight(request.view, self.vision, request.image).noted(answer)
        if self._changes:
            answer = replace(answer, mended=(*noted(answer), *self._changes))
        if isinstance(answer, ModelReplied) and self._options.text_calls != "off":
            self._note_form(answer, request)
            answer = self._read_text(answer, request)
            if self._ignores_tools(answer, request):
                self._options = replace(self._options, text_calls="prompt")
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _passed_on(self, request: AskModel) -> Callable[[str], str] | None:
        """Return the filter for streamed text that may become a call; None if calls are not read from text."""
        if self._options.text_calls == "off" or request.expects == "text":
            return None
        from .calls.held_words import HeldWords

        return HeldWords([tool.name for tool in request.view.tools]).pass_on

    def _attempt(self, request: AskModel, deadline: float, *, limited: bool = True) -> ModelReplied | ModelFailed:
        """Send the request; retry without a reply limit if the server says prompt and reply together are too long."""
        client, connection = self._connected()
        import httpx2
        import openai

        secret = self._endpoint.secret
        seconds = max(0.0, deadline - time.monotonic())
        speech: Any = client.chat.completions if self._wire is CHAT else client.responses
        create = speech.with_streaming_response.create
        body = self._wire.body(request.view, self._model, self._extras, Sight(request.view, self.vision, request.image))
        body |= {name: value for name, value in self._extra.items() if value is not None}
        if request.reads_together and "parallel_tool_calls" in body:
            body["parallel_tool_calls"] = True
        if self._options.text_calls == "prompt":
            body = _as_text(body)
        if self._endpoint.is_local and self._wire is CHAT:
            body["return_progress"] = True  # makes llama.cpp report how much of the prompt it has read
        if self._wants_schema(request):
            from .calls.call_schema import call_schema, schema_format

            body["response_format"] = schema_format(call_schema(request.view.tools))
        sent = {name: value for name, value in body.items() if name not in self._refused}
        self._schema_sent = "response_format" in sent
        limit = next((name for name in self._wire.limits if name not in self._refused), None) if limited else None
        if limit is not None:
            sent[limit] = min(self._most_output, self.window_tokens // 4, request.reply_tokens or self._most_output)
        refusal = next((refused for body, refused in self._refusals if body == sent), None)
        if refusal is not None:
            return refusal  # the change made no difference to this request
        whole_body = dict(sent)
        cut_reply = CutReply()
        try:
            extra = {name: sent.pop(name) for name in _EXTRA if name in sent}
            with connection.time_limit(seconds), create(**sent, extra_body=extra, stream=True) as response:
                streamed = server_events(response.http_response.iter_bytes(), deadline)
                events = cut_reply.counted(overheard(streamed, self._passed_on(request)))
                answer = self._wire.read(events, request.facts, secret)
            return cut_reply.ended(answer, connection, request.view)
        except openai.APIStatusError as error:
            text = error.response.text
            refused = answered_with(error.response, text, secret)
            change = self._learn(error.status_code, text, sent, limit)
            index = len(self._refusals)
            self._refusals.append((whole_body, refused))
            if change and (answer := self._attempt(request, deadline, limited=change != _UNLIMITED)) is not refused:
                self._changes.insert(0, f"{change}, because the server refused the request: {refused.detail[:300]}")
                return answer
            refused = self._explained(refused, error.status_code, text)
            self._refusals[index] = whole_body, refused
            return refused
        except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
            return cut_reply.ended(unanswered("timeout", self._endpoint, error), connection, request.view, error)
        except (openai.APIConnectionError, httpx2.HTTPError, OSError) as error:
            return cut_reply.ended(unanswered("connection", self._endpoint, error), connection, request.view)
        except openai.OpenAIError as error:
            return failed("rejected", str(error), secret)

    def _learn(self, status: int, text: str, sent: Json, limit: str | None) -> str:
        """Learn from a refusal. Returns what changes in the next attempt; empty if nothing does."""
        if status in {400, 413, 422} and limit is not None and leaves_no_room(text):
            return _UNLIMITED
        unknown = {name for name in (*_OPTIONAL, *self._wire.limits) if name in sent and name in text}
        if status in {400, 422} and unknown:
            left_out = {limit} if limit in unknown else unknown
            self._refused |= left_out
            return f"sent the request without {', '.join(sorted(filter(None, left_out)))}"
        extras = self._extras.after(text) if status in {400, 422} else self._extras
        if extras != self._extras:
            self._extras = extras
            return "sent the other fields of earlier replies as the server wants them"
        if self._tools_in_prompt(status, text, sent):
            return "described the tools in the prompt"
        if "response_format" in sent and kind_of_status(status, text) in ("rejected", "server_error"):
            self._refused |= {"response_format"}  # try again without the schema, whatever the error says
            return "sent the request without response_format"
        return ""

    def _note_form(self, reply: ModelReplied, request: AskModel) -> None:
        """Remember whether the model writes calls as text; models that call natively or think do not need help."""
        if request.expects == "call":
            self._writes_text = not any(isinstance(part, ToolCall | Thinking) for part in reply.parts)

    def _ignores_tools(self, reply: ModelReplied, request: AskModel) -> bool:
        """Whether the server dropped the tools: no call came back, and it counted far too few prompt tokens."""
        if self._wire is not CHAT or self._options.text_calls != "auto" or request.expects == "text":
            return False
        if not request.view.tools or any(isinstance(part, ToolCall) for part in reply.parts):
            return False
        counted = reply.usage.prompt
        return bool(counted) and not reply.usage.estimated and prompt_chars(request.view) > MAX_TOKEN_CHARS * counted

    def _read_text(self, reply: ModelReplied, request: AskModel) -> ModelReplied:
        from .calls.call_schema import was_cut
        from .calls.text_calls import with_calls

        read = with_calls(reply, request)
        calls = [part for part in read.parts if isinstance(part, ToolCall)]
        if calls and self._schema_sent and was_cut(calls[0], request.view.tools):
            return replace(read, stop="truncated")
        return read

    def _wants_schema(self, request: AskModel) -> bool:
        """Return whether to constrain this reply to a schema of the tools."""
        options = self._options
        if self._wire is not CHAT or request.expects != "call" or not request.view.tools or options.text_calls == "off":
            return False
        return options.call_schema == "on" or (
            options.call_schema == "auto" and self._endpoint.is_local and self._writes_text
        )

    def _tools_in_prompt(self, status: int, text: str, sent: Json) -> bool:
        """Return whether a refusal means that the tools must be described in the prompt from now on."""
        from .server.advice import takes_no_tools

        if self._wire is not CHAT or "tools" not in sent or self._options.text_calls != "auto":
            return False
        if not takes_no_tools(status, text):
            return False
        self._options = replace(self._options, text_calls="prompt")
        return True

    def _explained(self, failure: ModelFailed, status: int, text: str) -> ModelFailed:
        """Add advice to a failure, if there is any."""
        from .server.advice import advised

        address = without_login(self._endpoint.url)
        detail = advised(failure, address, status, text, lambda: served_names(self._endpoint, self._options.headers))
        return replace(failure, detail=one_line(detail, self._endpoint.secret))

    def _connected(self) -> tuple[OpenAI, Connection]:
        """Return the client. It ignores the environment except for proxies; address and key come from the endpoint."""
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
                default_headers=dict(self._options.headers),
            )
        return self._client, self._connection
