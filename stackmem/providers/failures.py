"""Classifies provider failures: each failed attempt becomes one event, and the machine decides what to do."""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

from stackmem.core.facts import ModelFailed
from stackmem.core.messages import FailureKind
from stackmem.core.text import whole
from stackmem.models.endpoint import Endpoint, without_login

if TYPE_CHECKING:
    from httpx2 import Response

_DETAIL_CHARS = 500
_KEY_CHARS = 8
"""Keys are never shorter, and removing shorter texts would damage unrelated words."""

_NO_WAIT: dict[str, str] = {}

_BY_STATUS: dict[int, FailureKind] = {
    401: "authentication", 402: "spend_limit", 403: "authentication", 408: "timeout", 409: "server_error",
    429: "rate_limited", 499: "connection", 504: "timeout", 529: "overloaded",
}  # fmt: skip

_BY_TYPE: dict[str, FailureKind] = {
    "overloaded_error": "overloaded", "rate_limit_error": "rate_limited", "rate_limit_exceeded": "rate_limited",
    "resource_exhausted": "rate_limited", "unavailable": "overloaded", "timeout_error": "timeout",
    "deadline_exceeded": "timeout", "authentication_error": "authentication", "permission_error": "authentication",
    "invalid_api_key": "authentication", "unauthenticated": "authentication", "permission_denied": "authentication",
    "billing_error": "spend_limit", "invalid_request_error": "rejected", "invalid_argument": "rejected",
    "badrequesterror": "rejected", "not_found_error": "rejected", "model_not_found": "rejected",
    "not_found": "rejected", "request_too_large": "rejected",
}  # fmt: skip
"""In lower case; all other types are ``server_error``."""

# Both providers report these with a status that would otherwise justify a retry.
_BUDGET_EXHAUSTED = re.compile(
    r"spend_limit|insufficient_quota|billing_hard_limit|credit balance is too low", re.IGNORECASE
)
_TOO_LONG = re.compile(
    "|".join((
        r"(prompt|input|request)( text)? (is|was) too (long|large)", r"too many (input |prompt )?tokens",
        r"context[_ ](length|size|window)[_ ]exceed", r"exceed_context_size", r"maximum (context|prompt|input) length",
        r"exceed(s|ed|ing)? (the )?((model'?s?|maximum|available|allowed) )*context",
        r"exceeds? the maximum number of (input )?tokens",
        r"token count of \d+ exceeds|exceed(s|ed)? (the )?(model )?token limit", r"context window exceeds",
        r"longer than the (model'?s? |maximum )+(context|model|input)? ?length", r"input token count .{0,40} exceeds",
        r"n_keep.{0,20}>= ?n_ctx", r"tokens to keep from the initial prompt", r"when context the overflows",
        r"inputs?`? must have less than \d+ tokens", r"`max_new_tokens` must be <=", r"prompt exceeds max length",
        r"reduce (the length of the messages|your message size)", r"range of input length should be",
        r"tokens in the prompt cannot exceed", r"should not exceed max_(num_tokens|seq_len|input_len)",
    )),
    re.IGNORECASE,
)  # fmt: skip
"""Wordings of OpenAI, Anthropic, Gemini, Bedrock, Groq, Mistral, xAI, Cohere, Kimi, MiniMax, GLM, Qwen and Copilot.

Also of the servers llama.cpp, LM Studio, vLLM, SGLang, TGI, TensorRT-LLM and Ollama.
"""
_WITH_REPLY = re.compile(r"max_(completion_|new_|output_)?tokens|in the completion|output tokens", re.IGNORECASE)

# Fields that may contain an error's message, most informative first.
_SENTENCES = ("message", "detail", "details", "msg", "error_message", "error_msg", "status_msg", "errors", "base_resp",
              "error", "title", "description", "reason")  # fmt: skip
_HEADING = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def failed(kind: FailureKind, detail: str, secret: str = "", headers: Mapping[str, str] = _NO_WAIT) -> ModelFailed:
    """Build a failure with a one-line detail from which ``secret`` is removed."""
    return ModelFailed(kind, one_line(detail, secret), retry_after_seconds(headers))


def unanswered(kind: Literal["timeout", "connection"], endpoint: Endpoint, error: BaseException) -> ModelFailed:
    """Build a failure for an attempt without an answer, with the address."""
    reason = cause(error) if kind == "connection" else str(error) or "no answer in time"
    return failed(kind, f"{without_login(endpoint.url)}: {reason}", endpoint.secret)


def answered_with(response: Response, text: str, secret: str) -> ModelFailed:
    """Build a failure from an answer's status and body."""
    status = response.status_code
    elsewhere = response.headers.get("location", "")
    if 300 <= status < 400 and elsewhere:
        address = without_login(elsewhere)
        detail = f"HTTP {status}: the server sends requests on to {address}; give that address if you trust it"
    else:
        detail = f"HTTP {status}: {sentence(text) or response.reason_phrase or 'no text'}"
    return failed(kind_of_status(status, text), detail, secret, response.headers)


def kind_of_status(status: int, text: str) -> FailureKind:
    """Classify an HTTP status; some can be told apart only by the answer's ``text``."""
    if status in {400, 402, 403, 413, 422, 429} and _BUDGET_EXHAUSTED.search(text):
        return "spend_limit"
    if status in {400, 413, 422, 500} and _TOO_LONG.search(text):
        return "window"
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "rejected")


def kind_of_error(error_type: str, text: str) -> FailureKind:
    """Classify an error inside a stream with HTTP status 200; unknown types justify a retry."""
    if _BUDGET_EXHAUSTED.search(text):
        return "spend_limit"
    if _TOO_LONG.search(text):
        return "window"
    return _BY_TYPE.get(error_type.lower(), "server_error")


def leaves_no_room(text: str) -> bool:
    """Return whether a too-long error also mentions the reply, so that a shorter reply limit may fit."""
    return _TOO_LONG.search(text) is not None and _WITH_REPLY.search(text) is not None


def sentence(value: Any, depth: int = 12) -> str:
    """Extract an error's message from nested objects, lists, JSON in text, a web page, or plain text."""
    if depth and isinstance(value, str):
        return _of_text(value, depth - 1)
    if depth and isinstance(value, list):
        return "; ".join(filter(None, (sentence(item, depth - 1) for item in value[:3])))
    if not depth or not isinstance(value, dict):
        return ""
    raw = value["metadata"].get("raw") if isinstance(value.get("metadata"), dict) else None
    inner = value.get("error") if isinstance(value.get("error"), dict | list) else None
    candidates = (raw, inner, *(value.get(name) for name in _SENTENCES))
    text = next(filter(None, (sentence(item, depth - 1) for item in candidates)), "")
    location = value.get("loc")
    return f"{'.'.join(map(str, location))}: {text}" if isinstance(location, list) and text else text


def _of_text(text: str, depth: int) -> str:
    text = text.strip()
    if text[:1] in {"{", "["}:
        try:
            return sentence(json.loads(text), depth) or text
        except (ValueError, RecursionError):
            return text
    return page_title(text) if text.startswith("<") else text


def web_page(text: str, secret: str) -> ModelFailed:
    """Build a failure for a web page in place of a reply; only the user can fix the address."""
    return failed(
        "rejected", f"the server answered with a web page, {page_title(text)!r:.200}; is the address right?", secret
    )


def page_title(text: str) -> str:
    """Return a web page's heading, or its text."""
    heading = _HEADING.search(text)
    return " ".join(html.unescape(_TAG.sub(" ", heading.group(2) if heading else text)).split())


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the delay requested in ``retry-after-ms``, or ``retry-after`` as seconds or a date; None without one.

    ``headers`` are names in lower case, or a mapping that ignores case.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, date.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def one_line(text: str, secret: str = "") -> str:
    """Shorten to 500 characters without line ends, control characters or ``secret``."""
    if len(secret) >= _KEY_CHARS:
        text = text.replace(secret, "[key]")
    text = "".join(char if char.isprintable() else " " for char in whole(text[: _DETAIL_CHARS * 8]))
    text = " ".join(text.split())
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"


def cause(error: BaseException) -> str:
    """Return the underlying cause: the SDK itself reports only 'Connection error.'."""
    wrapped = error.__cause__
    if wrapped is None or str(wrapped) in {"", str(error)}:
        return str(error) or type(error).__name__
    return f"{error} ({wrapped})"


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
