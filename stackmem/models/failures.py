"""What a provider's failure is called: one attempt's failure becomes one fact, and the machine decides on it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from stackmem.core.facts import FailureKind, ModelFailed
from stackmem.core.text import whole

_DETAIL_CHARS = 500
_KEY_CHARS = 8
"""No provider's key is shorter, and a shorter text would be cut out of words it is no key in."""

_NO_WAIT: dict[str, str] = {}

_BY_STATUS: dict[int, FailureKind] = {
    401: "authentication", 402: "spend_limit", 403: "authentication", 408: "timeout", 409: "server_error",
    429: "rate_limited", 499: "connection", 504: "timeout", 529: "overloaded",
}  # fmt: skip

_BY_TYPE: dict[str, FailureKind] = {
    "overloaded_error": "overloaded", "rate_limit_error": "rate_limited", "api_error": "server_error",
    "timeout_error": "timeout", "conflict_error": "server_error", "authentication_error": "authentication",
    "permission_error": "authentication", "billing_error": "spend_limit", "invalid_request_error": "rejected",
    "not_found_error": "rejected", "request_too_large": "rejected",
}  # fmt: skip

# Both providers answer these with a status that is otherwise worth another try.
_SPENT = re.compile(r"spend_limit|insufficient_quota|billing_hard_limit|credit balance is too low", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"prompt is too long|exceeds? (the )?(model'?s )?(maximum )?context|context_length_exceeded"
    r"|maximum context length|exceed_context_size|exceeds the available context size",
    re.IGNORECASE,
)


def failed(kind: FailureKind, detail: str, secret: str = "", headers: Mapping[str, str] = _NO_WAIT) -> ModelFailed:
    """The fact, with a detail of one line that does not hold ``secret``."""
    return ModelFailed(kind, one_line(detail, secret), retry_after_seconds(headers))


def kind_of_status(status: int, text: str) -> FailureKind:
    """What an HTTP status means; ``text`` is the whole answer, which alone tells some apart."""
    if status in {400, 402, 403, 413, 422, 429} and _SPENT.search(text):
        return "spend_limit"
    if status in {400, 413, 422, 500} and _TOO_LONG.search(text):
        return "window"
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "rejected")


def kind_of_error(error_type: str, text: str) -> FailureKind:
    """What an error in mid-stream means, whose HTTP status was 200; an unknown type is worth another try."""
    if _SPENT.search(text):
        return "spend_limit"
    if _TOO_LONG.search(text):
        return "window"
    return _BY_TYPE.get(error_type, "server_error")


def retry_after_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """What the provider asks to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date; else None.

    Args:
        headers: Names in lower case, or a mapping that ignores case.
        now: Seconds since the epoch; default is the clock.
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
        return max(0.0, date.timestamp() - (time.time() if now is None else now))
    except (TypeError, ValueError, OverflowError):
        return None


def one_line(text: str, secret: str = "") -> str:
    """At most 500 characters without line ends, control characters or ``secret``."""
    if len(secret) >= _KEY_CHARS:
        text = text.replace(secret, "[key]")
    text = "".join(char if char.isprintable() else " " for char in whole(text[: _DETAIL_CHARS * 8]))
    text = " ".join(text.split())
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"


def cause(error: BaseException) -> str:
    """The SDK says 'Connection error.'; what it wraps says which."""
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
