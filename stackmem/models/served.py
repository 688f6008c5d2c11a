"""What a server of Chat Completions says of the model that it serves, and whether anybody is there at all.

Nobody says it in the same words: vLLM and SGLang by ``max_model_len``, llama.cpp by ``meta.n_ctx``, LM Studio, Groq and
OpenRouter in ways of their own; OpenRouter says the price, too. Whoever says nothing is taken at nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from stackmem.core.pricing import Price
from stackmem.errors import UsageError

from .connection import Connection
from .endpoint import Endpoint, without_login
from .failures import cause, one_line
from .json_text import MOST_TOKENS
from .server.advice import is_loading

ASK_SECONDS = 3.0
_NONE: dict[str, str] = {}
_MOST_BYTES = 8 * 1024 * 1024
_WINDOWS = (
    ("loaded_context_length",), ("max_model_len",), ("meta", "n_ctx"), ("top_provider", "context_length"),
    ("context_length",), ("context_window",), ("max_context_length",),
)  # fmt: skip
"""Where a server says it, the most telling first: what is loaded, before what the model could take."""

_TIMES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SIZE = re.compile(r"\s*(\d{1,6}(?:\.\d{1,3})?)\s*([KMBT])\s*", re.IGNORECASE)
_EXPERTS = re.compile(r"(?<![a-z0-9.])(\d{1,3})x(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])", re.IGNORECASE)
_IN_NAME = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,3})?)([mb])(?![a-z0-9])", re.IGNORECASE)
_MOST_PARAMETERS = 10**15
_PARAMETERS = (
    ("meta", "n_params"),
    ("details", "parameter_size"),
    ("model_info", "general.parameter_count"),
    ("parameter_size",),
    ("params",),
)
"""Where servers say it: llama.cpp, Ollama, Ollama's show, and others."""


class ServedModel(Struct, frozen=True):
    """What the server says; None where it does not."""

    window_tokens: int | None = None
    price: Price | None = None  # of a server that sells replies
    parameters: int | None = None  # how many the model has


def ask_server(
    endpoint: Endpoint, model: str, seconds: float = ASK_SECONDS, headers: Mapping[str, str] = _NONE
) -> ServedModel:
    """One look at the server's list of models, bounded in time and size."""
    status, text = _listed(endpoint, seconds, headers)
    address = without_login(endpoint.url)
    if is_loading(status, text.decode("utf-8", "replace")):
        raise UsageError(f"{address} is still loading its model; wait until it is ready, then try again")
    return _read(text, model, address) if status == 200 else ServedModel()


def served_names(endpoint: Endpoint, headers: Mapping[str, str] = _NONE) -> tuple[str, ...]:
    """The names of the models that the server lists; none if it does not answer."""
    try:
        models = read_models(json.loads(_listed(endpoint, ASK_SECONDS, headers)[1]))
    except (UsageError, ValueError, RecursionError):
        return ()
    return tuple(models or ())


def _listed(endpoint: Endpoint, seconds: float, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """The status and the text of the server's list of models; status 0 if the answer is unusable."""
    import httpx2

    try:
        return _answer(endpoint, ("GET", f"{endpoint.url}/models", None), seconds, headers)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        address, why = without_login(endpoint.url), one_line(cause(error), endpoint.secret)
        raise UsageError(
            f"nothing answers at {address} ({why}); start the server there, or name another with --base-url"
        ) from error
    except (httpx2.HTTPError, OSError):
        return 0, b""


def ask_ollama(endpoint: Endpoint, model: str, seconds: float = ASK_SECONDS) -> int | None:
    """How many parameters a model of Ollama has: its list of models does not say it; None if nobody answers."""
    import httpx2

    address = f"{endpoint.url.removesuffix('/').removesuffix('/v1')}/api/show"
    try:
        status, text = _answer(endpoint, ("POST", address, {"model": model}), seconds, _NONE)
        shown = json.loads(text) if status == 200 else None
    except (httpx2.HTTPError, OSError, ValueError, RecursionError):
        return None
    return count_in_entry(shown) if isinstance(shown, dict) else None


def _answer(
    endpoint: Endpoint, request: tuple[str, str, dict[str, str] | None], seconds: float, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """The status and the body of the answer; status 0 if the body is too large."""
    import openai

    method, address, body = request
    connection = Connection(openai.DefaultHttpxClient, seconds, seconds)
    sent = {"authorization": f"Bearer {endpoint.key}", **headers}
    text = bytearray()
    try:
        with (
            connection.within(seconds),
            connection.client.stream(method, address, headers=sent, json=body) as answer,
        ):
            for piece in answer.iter_bytes():
                text += piece
                if len(text) > _MOST_BYTES:
                    return 0, b""
            return answer.status_code, bytes(text)
    finally:
        connection.client.close()


def read_models(answer: Any) -> dict[str, ServedModel] | None:
    """The models that a server's list names; None if the answer is not such a list."""
    listed = answer.get("data") or answer.get("models") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        return None
    named = ((str(entry.get("id") or entry.get("name") or ""), entry) for entry in listed if isinstance(entry, dict))
    return {
        name[:200]: ServedModel(_window_of(entry), parameters=count_in_entry(entry))
        for name, entry in named
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
    named = [entry for entry in entries if model in (entry.get("id"), entry.get("name"), entry.get("root"))]
    entry = next(iter(named or (entries if len(entries) == 1 else [])), {})
    return ServedModel(_window_of(entry), _price(entry.get("pricing"), address), count_in_entry(entry))


def _window(entry: dict[str, Any], path: tuple[str, ...]) -> int | None:
    value: Any = entry
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_TOKENS else None


def _price(pricing: Any, address: str) -> Price | None:
    """USD a token, in text or numbers, as USD per million; None where a figure is none."""
    if not isinstance(pricing, dict):
        return None
    told = [pricing.get(name) for name in ("prompt", "completion", "input_cache_read", "input_cache_write")]
    figures = [_per_million(told[0] if figure is None else figure) for figure in told]
    if told[1] is None or not all(0 <= figure < 1_000_000 for figure in figures):
        return None
    paid, output, read, write = figures
    return Price(paid, output, write, write, read, f"said by the server at {address}")


def _per_million(figure: Any) -> float:
    """Below 0 where it is no figure."""
    try:
        return round(float(figure) * 1_000_000, 9)
    except (TypeError, ValueError):
        return -1.0


def count_in_entry(entry: dict[str, Any]) -> int | None:
    """The parameters of a model by a server's entry for it; None if the entry does not say."""
    for path in _PARAMETERS:
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if (count := _count(value)) is not None:
            return count
    return None


def count_in_name(name: str) -> int | None:
    """The parameters by a name such as ``qwen2.5-coder:1.5b`` or ``Mixtral-8x7B``; None if it names none."""
    experts = _EXPERTS.search(name)
    if experts is not None:
        return int(int(experts[1]) * float(experts[2]) * 1e9)
    found = [float(size) * _TIMES[unit.upper()] for size, unit in _IN_NAME.findall(name)]
    return int(max(found)) if found and max(found) >= 1 else None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and (written := _SIZE.fullmatch(value)) is not None:
        value = float(written[1]) * _TIMES[written[2].upper()]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MOST_PARAMETERS:
        return None
    return int(value)
