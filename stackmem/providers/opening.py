"""The makers of the models of providers and servers, by the prefix of the model's name."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.errors import UsageError
from stackmem.models.endpoint import ANTHROPIC, GEMINI, OPENAI, endpoint
from stackmem.models.local_servers import FREE, LOCAL_SERVERS, default_url
from stackmem.models.registry import Model, ModelRequest

from .anthropic import AnthropicModel
from .gemini import GeminiModel
from .openai import CHAT, RESPONSES, OpenAIModel, Wire


def _anthropic(wanted: ModelRequest) -> Model:
    found = endpoint(ANTHROPIC, wanted.environ)
    if wanted.asked.text_calls == "prompt":
        raise UsageError("--text-calls prompt works only with openai/NAME models; leave it out")
    return AnthropicModel(
        _provider_name(wanted), found, window_tokens=wanted.window_tokens, price=wanted.price, asked=wanted.asked
    )


def _openai(wanted: ModelRequest) -> Model:
    return _through(CHAT, wanted)


def _responses(wanted: ModelRequest) -> Model:
    if wanted.asked.text_calls == "prompt" or wanted.seed is not None:
        raise UsageError(
            "responses/NAME does not support --seed or --text-calls prompt; leave them out, or use openai/NAME"
        )
    return _through(RESPONSES, wanted)


def _through(wire: Wire, wanted: ModelRequest) -> Model:
    found = endpoint(OPENAI, wanted.environ, wanted.base_url)
    return OpenAIModel(
        _provider_name(wanted),
        found,
        window_tokens=wanted.window_tokens,
        seed=wanted.seed,
        price=wanted.price,
        asked=wanted.asked,
        wire=wire,
    )


def _local(kind: str) -> Callable[[ModelRequest], Model]:
    """Make a factory for models of a local server: no key is sent, and tokens are free."""

    def make(wanted: ModelRequest) -> Model:
        return OpenAIModel(
            _provider_name(wanted),
            endpoint(OPENAI, {}, wanted.base_url or default_url(kind)),
            window_tokens=wanted.window_tokens,
            seed=wanted.seed,
            price=wanted.price or FREE,
            asked=wanted.asked,
            prefix=kind,
        )

    return make


def _gemini(wanted: ModelRequest) -> Model:
    if wanted.asked.text_calls == "prompt":
        raise UsageError("--text-calls prompt works only with openai/NAME models; leave it out")
    return GeminiModel(
        _provider_name(wanted),
        endpoint(GEMINI, wanted.environ, wanted.base_url),
        window_tokens=wanted.window_tokens,
        seed=wanted.seed,
        price=wanted.price,
        asked=wanted.asked,
    )


PROVIDERS: dict[str, Callable[[ModelRequest], Model]] = {
    "anthropic/": _anthropic,
    "openai/": _openai,
    "responses/": _responses,
    "gemini/": _gemini,
    **{f"{kind}/": _local(kind) for kind in LOCAL_SERVERS},
}


def _provider_name(wanted: ModelRequest) -> str:
    name = wanted.rest
    if not name or not name.isprintable() or len(name) > 200 or name != name.strip():
        raise UsageError(f"{name[:80]!r} is not a model name; stackmem models lists the known models")
    return name
