"""Queries a Chat Completions server about the model it serves, and whether the server is running.

Servers report the window differently: vLLM and SGLang as ``max_model_len``, llama.cpp as ``meta.n_ctx``, and LM
Studio, Groq and OpenRouter each in another field. OpenRouter also reports the price. Missing values stay None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.pricing import Price
from stackmem.models.catalog import TIMES
from stackmem.models.endpoint import Endpoint, without_login

from .connection import Connection
from .failures import cause, one_line
from .json_text import MAX_TOKENS

ASK_SECONDS = 3.0
_NONE: dict[str, str] = {}
_MAX_BYTES = 8 * 1024 * 1024
_WINDOWS = (
    ("loaded_context_length",), ("max_model_len",), ("meta", "n_ctx"), ("top_provider", "context_length"),
    ("context_length",), ("context_window",), ("max_context_length",),
)  # fmt: skip
"""Fields with the window size, most reliable first: the loaded size before the model's maximum."""

_SIZE = re.compile(r"\s*(\d{1,6}(?:\.\d{1,3})?)\s*([KMBT])\s*", re.IGNORECASE)
_MAX_PARAMETERS = 10**15
_PARAMETERS = (
    ("meta", "n_params"),
    ("details", "parameter_size"),
    ("model_info", "general.parameter_count"),
    ("parameter_size",),
    ("params",),
)
"""Fields with the number of parameters: of llama.cpp, Ollama, Ollama's show, and others."""


class ServedModel(Struct, frozen=True):
    """A server's information about a model; None if it does not state a value."""

    window_tokens: int | None = None
    price: Price | None = None  # of servers that sell replies
    parameters: int | None = None  # number of parameters


def ask_server(
    endpoint: Endpoint, model: str, seconds: float = ASK_SECONDS, headers: Mapping[str, str] = _NONE
) -> ServedModel:
    """Query the server's model list once, limited in time and size.

    Raise UsageError if no server answers at the address, or its model is still loading.
    """
    from .server.advice import is_loading

    status, text = _listed(endpoint, seconds, headers)
    address = without_login(endpoint.url)
    if is_loading(status, text.decode("utf-8", "replace")):
        raise UsageError(f"{address} is still loading its model; wait until it is ready, then try again")
    return _read(text, model, address) if status == 200 else ServedModel()


def served_names(endpoint: Endpoint, headers: Mapping[str, str] = _NONE) -> tuple[str, ...]:
    """Return the names of the models that the server lists; empty if it does not answer."""
    try:
        models = read_models(json.loads(_listed(endpoint, ASK_SECONDS, headers)[1]))
    except (UsageError, ValueError, RecursionError):
        return ()
    return tuple(models or ())


def _listed(endpoint: Endpoint, seconds: float, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Return the status and text of the model list; status 0 if the answer is unusable."""
    import httpx2

    try:
        return _answer(endpoint, ("GET", f"{endpoint.url}/models", None), seconds, headers)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        address, reason = without_login(endpoint.url), one_line(cause(error), endpoint.secret)
        raise UsageError(
            f"no server answers at {address} ({reason}); start it, or pass another address with --base-url"
        ) from error
    except (httpx2.HTTPError, OSError):
        return 0, b""


def ask_ollama(endpoint: Endpoint, model: str, seconds: float = ASK_SECONDS) -> int | None:
    """Return the number of parameters of an Ollama model, which its model list omits; None without an answer."""
    import httpx2

    address = f"{endpoint.url.removesuffix('/').removesuffix('/v1')}/api/show"
    try:
        status, text = _answer(endpoint, ("POST", address, {"model": model}), seconds, _NONE)
        details = json.loads(text) if status == 200 else None
    except (httpx2.HTTPError, OSError, ValueError, RecursionError):
        return None
    return count_in_entry(details) if isinstance(details, dict) else None


def _answer(
    endpoint: Endpoint, request: tuple[str, str, dict[str, str] | None], seconds: float, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Return the status and body of the answer; status 0 if the body is too large."""
    import openai

    method, address, body = request
    connection = Connection(openai.DefaultHttpxClient, seconds, seconds)
    sent = {"authorization": f"Bearer {endpoint.key}", **headers}
    text = bytearray()
    try:
        with (
            connection.time_limit(seconds),
            connection.client.stream(method, address, headers=sent, json=body) as answer,
        ):
            for piece in answer.iter_bytes():
                text += piece
                if len(text) > _MAX_BYTES:
                    return 0, b""
            return answer.status_code, bytes(text)
    finally:
        connection.client.close()


def read_models(answer: Any) -> dict[str, ServedModel] | None:
    """Parse a server's model list; None if the answer is not such a list."""
    listed = answer.get("data") or answer.get("models") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        return None
    pairs = ((str(entry.get("id") or entry.get("name") or ""), entry) for entry in listed if isinstance(entry, dict))
    return {
        name[:200]: ServedModel(_window_of(entry), parameters=count_in_entry(entry))
        for name, entry in pairs
        if name.isprintable() and name
    }


def _window_of(entry: dict[str, Any]) -> int | None:
    return next(filter(None, (_window(entry, path) for path in _WINDOWS)), None)


def _read(text: bytes, model: str, address: str) -> ServedModel:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return ServedModel()
    listed = answer.get("data") or answer.get("models") if isinstance(answer, dict) else answer
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    matches = [entry for entry in entries if model in (entry.get("id"), entry.get("name"), entry.get("root"))]
    entry = next(iter(matches or (entries if len(entries) == 1 else [])), {})
    return ServedModel(_window_of(entry), _price(entry.get("pricing"), address), count_in_entry(entry))


def _window(entry: dict[str, Any], path: tuple[str, ...]) -> int | None:
    value: Any = entry
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOKENS else None


def _price(pricing: Any, address: str) -> Price | None:
    """Convert USD per token, given as text or numbers, to USD per million; None if a figure is invalid."""
    if not isinstance(pricing, dict):
        return None
    prices = [pricing.get(name) for name in ("prompt", "completion", "input_cache_read", "input_cache_write")]
    figures = [_per_million(prices[0] if figure is None else figure) for figure in prices]
    if prices[1] is None or not all(0 <= figure < 1_000_000 for figure in figures):
        return None
    paid, output, read, write = figures
    return Price(paid, output, write, write, read, f"said by the server at {address}")


def _per_million(figure: Any) -> float:
    """Return a negative number if the figure is invalid."""
    try:
        return round(float(figure) * 1_000_000, 9)
    except (TypeError, ValueError):
        return -1.0


def count_in_entry(entry: dict[str, Any]) -> int | None:
    """Return the number of parameters from a server's entry; None if it is missing."""
    for path in _PARAMETERS:
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if (count := _count(value)) is not None:
            return count
    return None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and (written := _SIZE.fullmatch(value)) is not None:
        value = float(written[1]) * TIMES[written[2].upper()]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MAX_PARAMETERS:
        return None
    return int(value)
