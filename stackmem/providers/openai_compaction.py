"""OpenAI's own compaction: ``/responses/compact`` replaces a conversation by an encrypted item.

The answer is the beginning of every later input, as it came: the user's messages and the item.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import OPENAI_SUMMARY, Thinking
from stackmem.core.text import whole, whole_value
from stackmem.models.endpoint import Endpoint

from .connection import Connection
from .failures import answered_with, failed, unanswered
from .openai_responses import response_usage
from .openai_stream import scalar

if TYPE_CHECKING:
    from openai import OpenAI

_FIELDS = ("model", "input", "instructions")
"""The fields of a compaction request; it has neither tools nor a stream."""


def compacted(
    client: OpenAI, connection: Connection, endpoint: Endpoint, body: dict[str, Any], left_seconds: float | None
) -> ModelReplied | ModelFailed:
    """Make one attempt and return the provider's summary as the only part of a reply."""
    import httpx2
    import openai

    secret, seconds = endpoint.secret, endpoint.attempt_seconds(left_seconds)
    sent = {name: body[name] for name in _FIELDS if name in body}
    try:
        with connection.time_limit(seconds), client.responses.with_streaming_response.compact(**sent) as response:
            text = response.http_response.read().decode("utf-8", "replace")
        return connection.in_time(_read(text, secret))
    except openai.APIStatusError as error:
        return answered_with(error.response, error.response.text, secret)
    except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
        return connection.in_time(unanswered("timeout", endpoint, error))
    except (openai.APIConnectionError, httpx2.HTTPError, OSError) as error:
        return connection.in_time(unanswered("connection", endpoint, error))
    except openai.OpenAIError as error:
        return failed("rejected", str(error), secret)


def _read(text: str, secret: str) -> ModelReplied | ModelFailed:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return failed("incomplete", f"the answer to the compaction request is not JSON: {error}", secret)
    output = value.get("output") if isinstance(value, dict) else None
    items = [whole_value(item) for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    if not any(item.get("type") == "compaction" and item.get("encrypted_content") for item in items):
        return failed("incomplete", "the provider returned no summary for the compaction request", secret)
    part = Thinking({"type": OPENAI_SUMMARY, "items": items})
    usage, reply_id = response_usage(value.get("usage")), whole(scalar(value.get("id")))[:200]
    return ModelReplied((part,), "end", usage, reply_id=reply_id)
