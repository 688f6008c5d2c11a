"""Small JSON requests to a model server: for its tokenizer, and for ``stackmem doctor``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from stackmem.models.endpoint import Endpoint
from stackmem.providers.connection import Connection

Json = dict[str, Any]

_MAX_BYTES = 8 << 20
_TOKENIZER_SECONDS = 5.0
_PROMPT = ("messages", "tools")
_NONE: Mapping[str, str] = {}


class Answer(Struct, frozen=True):
    """A server's answer."""

    status: int  # 0 without an answer
    text: str  # the body, or the reason why there is none
    seconds: float = 0.0  # until the last byte
    first_seconds: float = 0.0  # until the first event with a piece of the reply

    @property
    def value(self) -> Json:
        """The body as an object; empty if it is not one or the request failed."""
        try:
            value = json.loads(self.text) if self.status == 200 else {}
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def post(endpoint: Endpoint, url: str, body: Json, *, seconds: float, headers: Mapping[str, str] = _NONE) -> Answer:
    """Send one request and read the whole answer within ``seconds``; a failure is an answer with status 0."""
    import httpx2
    import openai

    connection = Connection(openai.DefaultHttpxClient, seconds, seconds)
    sent = {"authorization": f"Bearer {endpoint.key}", "content-type": "application/json", **headers}
    began = time.monotonic()
    text, first = bytearray(), 0.0
    try:
        with (
            connection.time_limit(seconds),
            connection.client.stream("POST", url, headers=sent, content=json.dumps(body).encode()) as answer,
        ):
            for piece in answer.iter_bytes():
                if not first and (b'"content":"' in piece or b'"content": "' in piece or b"tool_calls" in piece):
                    first = time.monotonic() - began
                text += piece
                if len(text) > _MAX_BYTES:
                    return Answer(0, "the answer is longer than 8 MiB")
            passed = time.monotonic() - began
            return Answer(answer.status_code, text.decode("utf-8", "replace"), passed, first or passed)
    except (httpx2.HTTPError, OSError) as error:
        return Answer(0, str(error) or type(error).__name__, time.monotonic() - began)
    finally:
        connection.client.close()


def count_prompt(endpoint: Endpoint, body: Json, headers: Mapping[str, str] = _NONE) -> int | None:
    """Count the tokens of a chat request with the server's own template; None if the server has no such endpoint.

    vLLM accepts the messages directly. llama.cpp first applies the template and then counts the text.
    """
    base = endpoint.url.removesuffix("/v1")
    chat = {name: body[name] for name in _PROMPT if name in body}

    def ask(path: str, sent: Json) -> Json:
        return post(endpoint, f"{base}{path}", sent, seconds=_TOKENIZER_SECONDS, headers=headers).value

    templated = ask("/apply-template", chat).get("prompt")
    if isinstance(templated, str) and templated:
        counted = ask("/tokenize", {"content": templated, "add_special": True, "parse_special": True})
    else:
        counted = ask("/tokenize", {"model": body.get("model"), **chat, "add_generation_prompt": True})
    return _number(counted)


def _number(counted: Json) -> int | None:
    count: Any = counted.get("count")
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        return count
    tokens = counted.get("tokens")
    return len(tokens) if isinstance(tokens, list) and tokens else None
