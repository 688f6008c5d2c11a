"""Claude and other servers of Anthropic's Messages API, through the official SDK.

One call is one attempt. A failure becomes an event with a kind, and the machine decides whether to retry.
"""

from __future__ import annotations

import base64
import json
import re
import time
from typing import TYPE_CHECKING, Any, assert_never

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.images import no_image
from stackmem.core.messages import (
    ANTHROPIC_SUMMARY,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    View,
)
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.core.text import whole, whole_value
from stackmem.core.tools import CALLS
from stackmem.models.asked import NOTHING_ASKED, Asked
from stackmem.models.catalog import lookup
from stackmem.models.endpoint import Endpoint
from stackmem.models.spoken import overheard
from stackmem.models.tokens import estimated_usage
from stackmem.models.vision import vision_of
from stackmem.models.web_search import SearchAnswer

from .anthropic_stream import read_reply
from .connection import Connection
from .event_stream import server_events
from .failures import answered_with, failed, unanswered
from .images import Sight
from .mending.mediator import NOTHING_LEARNED, Learned, Mediator
from .openai_messages import FOREIGN_THOUGHT
from .provider_context import as_sent, request_fields, summarized
from .web_search import search_web

if TYPE_CHECKING:
    from anthropic import Anthropic


Block = dict[str, Any]

WINDOW_TOKENS = 200_000
_BETA_HEADER = "anthropic-beta"
_REPLY_TOKENS = 32_000


class AnthropicModel:
    """A model behind the Messages API."""

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        price: Price | None = None,
        asked: Asked = NOTHING_ASKED,
    ) -> None:
        """Prepare the model; the SDK is imported and the address resolved only by the first request.

        The default window comes from the model table, or is 200,000 tokens for unknown models. Replies are limited
        to 32,000 tokens, the model's own limit, or a quarter of the window, whichever is smallest.
        """
        row = lookup(model)
        self.name = f"anthropic/{model}"  # includes the provider, as recorded in traces
        # for prompt and reply together
        self.window_tokens = window_tokens or (row.window_tokens if row else WINDOW_TOKENS)
        self.price = price or (row.price if row else None)  # None if unknown
        self.vision = vision_of(self.name, asked.vision)  # None if the model cannot see images
        self._model = model
        self._endpoint = endpoint
        self._thinking = row.thinking if row else None
        most = min(_REPLY_TOKENS, row.max_output_tokens if row else _REPLY_TOKENS, self.window_tokens // 4)
        self._max_tokens = max_output_tokens or most
        self._headers = dict(asked.headers)
        self._wished = _wished(asked)
        self._mediator = Mediator(plain_ids=True, signs=True)
        self._client: Anthropic | None = None
        self._connection: Connection | None = None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Make one attempt; Ctrl-C interrupts it immediately."""
        sent = as_sent(request, self.name, edits=True, reads=ANTHROPIC_SUMMARY)
        return sent if isinstance(sent, ModelFailed) else self._mediator.reply(sent, self._answer)

    def search(self, query: str, domains: tuple[str, ...]) -> SearchAnswer:
        """Search the web with the provider's server tool."""
        return search_web(self.name, self._endpoint, self._headers, query, domains)

    def _answer(self, request: AskModel, learned: Learned) -> ModelReplied | ModelFailed:
        longest = min(self._max_tokens, request.reply_tokens or self._max_tokens)
        sight = Sight(request.view, self.vision, request.image)
        body = request_body(request.view, self._model, longest, self._thinking, learned, sight)
        if request.reads_together and "tool_choice" in body:
            body["tool_choice"] = {"type": "auto"}  # without ``disable_parallel_tool_use``
        provider = request.view.provider
        fields, betas = request_fields(provider, thinks="thinking" in body)
        seconds = self._endpoint.attempt_seconds(request.left_seconds)
        answer = sight.noted(self._attempt(body, seconds, fields, betas))
        if provider is not None and provider.summarizes and isinstance(answer, ModelReplied):
            answer = summarized(answer)
        # Compatible servers may report no usage; zero would make the run look free and its prompts empty.
        if isinstance(answer, ModelReplied) and answer.usage == Usage():
            return estimated_usage(answer, request.view)
        return answer

    def _attempt(
        self, body: dict[str, Any], seconds: float, fields: Block, betas: tuple[str, ...]
    ) -> ModelReplied | ModelFailed:
        import anthropic  # takes more than a second to import
        import httpx2

        secret = self._endpoint.secret
        client, connection = self._connected()
        # For the whole attempt: the timeouts of the client begin anew with every byte.
        deadline = time.monotonic() + seconds
        create = client.messages.with_streaming_response.create
        try:
            with (
                connection.time_limit(seconds),
                create(
                    **body, stream=True, extra_body=self._wished | fields, extra_headers=self._beta_header(betas)
                ) as response,
            ):
                events = overheard(server_events(response.http_response.iter_bytes(), deadline))
                answer = read_reply(events, secret)
            return connection.in_time(answer)
        # The order matters: status and timeout errors are subclasses of those below.
        except anthropic.APIStatusError as error:
            return answered_with(error.response, error.response.text, secret)
        except (anthropic.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
            return connection.in_time(unanswered("timeout", self._endpoint, error))
        except (anthropic.APIConnectionError, httpx2.HTTPError, OSError) as error:
            return connection.in_time(unanswered("connection", self._endpoint, error))
        except anthropic.AnthropicError as error:
            return failed("rejected", str(error), secret)

    def _beta_header(self, betas: tuple[str, ...]) -> dict[str, str]:
        """Return the header for beta features, with those that the user asked for."""
        requested = [value for name, value in self._headers.items() if name.lower() == _BETA_HEADER]
        return {_BETA_HEADER: ",".join([*requested, *betas])} if betas else {}

    def _connected(self) -> tuple[Anthropic, Connection]:
        """Return the client. It ignores the environment except for proxies; address and key come from the endpoint."""
        if self._client is None or self._connection is None:
            import anthropic

            there = self._endpoint
            self._connection = Connection(anthropic.DefaultHttpxClient, there.connect_seconds, there.silence_seconds)
            http = self._connection.client
            self._client = anthropic.Anthropic(
                api_key=there.key,
                base_url=there.url,
                # The machine retries, so that each attempt is recorded and counts against the limits.
                max_retries=0,
                timeout=http.timeout,
                http_client=http,
                default_headers=self._headers,
            )
        return self._client, self._connection


def _wished(options: Asked) -> Block:
    """Return the user's options. They bypass the SDK's fields, so that the server itself reports unsupported ones."""
    wished: Block = {"temperature": options.temperature, "service_tier": options.service_tier}
    wished["output_config"] = {"effort": options.effort} if options.effort else None
    return {name: value for name, value in wished.items() if value is not None}


_NOTHING = "(no text)"
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def request_body(
    view: View,
    model: str,
    max_tokens: int,
    thinking: str | None,
    learned: Learned = NOTHING_LEARNED,
    sight: Sight | None = None,
) -> dict[str, Any]:
    """Build the request body, without ``stream``.

    ``max_tokens`` limits the reply including thinking. ``thinking="adaptive"`` requests thinking; other values keep
    the model's default. Without ``sight``, images are left out.
    """
    sight = sight or Sight(view, None, no_image)
    # an empty time to live leaves it to the server
    marks = {(at.message, at.part): "" if "ttl" in learned.fields else str(at.ttl) for at in view.breakpoints}
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
    without = learned.fields
    if thinking == "adaptive" and learned.thoughts != "off" and "adaptive" not in without:
        body["thinking"] = {"type": "adaptive"} | ({} if "display" in without else {"display": "summarized"})
    if view.tools:
        body["tools"] = [_tool(tool, strict="strict" not in without) for tool in view.tools]
        one_call = {} if "disable_parallel_tool_use" in without else {"disable_parallel_tool_use": True}
        body["tool_choice"] = {"type": "auto", **one_call}
    if view.system.strip():
        system: Block = {"type": "text", "text": whole(view.system)}
        body["system"] = [_marked(system, next((ttl for (at, _), ttl in marks.items() if at == -1), None))]
    unsigned = learned.thoughts == "all"
    body["messages"] = [_message(message, index, marks, unsigned, sight) for index, message in enumerate(view.messages)]
    return body


def _tool(tool: ToolSpec, *, strict: bool) -> Block:
    schema = tool.parameters
    # ``strict`` requires closed schemas, and other people's tools use keywords that it does not support
    closed = {"strict": True} if strict and "properties" in schema and tool.name in CALLS else {}
    return {"name": tool.name, "description": whole(tool.description), **closed, "input_schema": schema}


def _message(
    message: Message, index: int, marks: dict[tuple[int, int], str], unsigned: bool, sight: Sight
) -> dict[str, Any]:
    blocks: list[Block] = []
    for number, part in enumerate(message.parts):
        blocks += _blocks(part, unsigned, sight)
        ttl = marks.get((index, number))
        # If a part is not sent, its cache mark moves to the part before it, which ends the same prefix.
        if ttl is not None and blocks and blocks[-1]["type"] in {"text", "tool_use", "tool_result", "image"}:
            blocks[-1] = _marked(blocks[-1], ttl)
    return {"role": message.role, "content": blocks or [{"type": "text", "text": _NOTHING}]}


def _blocks(part: Part, unsigned: bool, sight: Sight) -> list[Block]:
    """Convert a part to blocks; none for blank text and for a thought without signature, which the API refuses."""
    match part:
        case Text():
            text, images = _text_and_images(part, sight)
            return [{"type": "text", "text": text}, *images] if text.strip() else images
        case Thinking() if part.raw.get("type") == FOREIGN_THOUGHT:
            return []
        case Thinking() if part.raw.get("type") == "thinking" and not part.raw.get("signature") and not unsigned:
            return []
        case Thinking():
            return [whole_value(part.raw)]
        case ToolCall():
            return [{"type": "tool_use", "id": _name(part.id), "name": _name(part.name), "input": _input(part)}]
        case ToolResult():
            return [_result(part, sight)]
        case _:
            assert_never(part)


def _text_and_images(part: Text | ToolResult, sight: Sight) -> tuple[str, list[Block]]:
    """Return the text of a part, with a sentence about images that are not sent, and the blocks of its images."""
    images, note = sight.of(part)
    sources = (
        {"type": "base64", "media_type": ref.media, "data": base64.b64encode(raw).decode()} for ref, raw in images
    )
    return whole(part.text) + note, [{"type": "image", "source": source} for source in sources]


def _result(part: ToolResult, sight: Sight) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _name(part.call_id)}
    text, images = _text_and_images(part, sight)
    if images:
        block["content"] = [{"type": "text", "text": text}, *images]
    elif text:
        block["content"] = text
    if part.failed:
        block["is_error"] = True
    return block


def _name(text: str) -> str:
    """Replace characters that the API refuses in names and ids; made-up tools and foreign ids may contain them."""
    return _NOT_NAME.sub("_", text)[:128] or "unknown"


def _input(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments as the object that the API requires, whatever the model sent."""
    if call.malformed is not None:
        return {"malformed": whole(call.malformed)}
    if not isinstance(call.arguments, dict):
        return {"malformed": whole(json.dumps(call.arguments, ensure_ascii=False))}
    try:
        arguments: dict[str, Any] = whole_value(call.arguments)
    except ValueError:
        return {"malformed": "arguments nested too deep"}
    return arguments


def _marked(block: Block, ttl: str | None) -> Block:
    if ttl is None:
        return block
    return {**block, "cache_control": {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}}
