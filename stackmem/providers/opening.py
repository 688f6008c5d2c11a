"""The makers of the models of providers and servers, by the prefix of the model's name."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.errors import UsageError
from stackmem.models.endpoint import ANTHROPIC, GEMINI, OPENAI, endpoint
from stackmem.models.local_servers import FREE, LOCAL_SERVERS, default_url
from stackmem.models.registry import Model, ModelRequest

from .anthropic import AnthropicModel
from .gemini import GeminiModel
from .openai import CHAT, RESPONSES, OpenAIModel, Wire


def _anthropic(request: ModelRequest) -> Model:
    server = endpoint(ANTHROPIC, request.environ)
    if request.asked.text_calls == "prompt":
        raise UsageError("--text-calls prompt works only with openai/NAME models; leave it out")
    return AnthropicModel(
        _provider_name(request), server, window_tokens=request.window_tokens, price=request.price, asked=request.asked
    )


def _openai(request: ModelRequest) -> Model:
    return _through(CHAT, request)


def _responses(request: ModelRequest) -> Model:
    if request.asked.text_calls == "prompt" or request.seed is not None:
        raise UsageError(
            "responses/NAME does not support --seed or --text-calls prompt; leave them out, or use openai/NAME"
        )
    return _through(RESPONSES, request)


def _through(wire: Wire, request: ModelRequest) -> Model:
    server = endpoint(OPENAI, request.environ, request.base_url)
    return OpenAIModel(
        _provider_name(request),
        server,
        window_tokens=request.window_tokens,
        seed=request.seed,
        price=request.price,
        asked=request.asked,
        wire=wire,
    )


def _local(kind: str) -> Callable[[ModelRequest], Model]:
    """Make a factory for models of a local server: no key is sent, and tokens are free."""

    def make(request: ModelRequest) -> Model:
        return OpenAIModel(
            _provider_name(request),
            endpoint(OPENAI, {}, request.base_url or default_url(kind)),
            window_tokens=request.window_tokens,
            seed=request.seed,
            price=request.price or FREE,
            asked=request.asked,
            prefix=kind,
        )

    return make


def _gemini(request: ModelRequest) -> Model:
    if request.asked.text_calls == "prompt":
        raise UsageError("--text-calls prompt works only with openai/NAME models; leave it out")
    return GeminiModel(
        _provider_name(request),
        endpoint(GEMINI, request.environ, request.base_url),
        window_tokens=request.window_tokens,
        seed=request.seed,
        price=request.price,
        asked=request.asked,
    )


PROVIDERS: dict[str, Callable[[ModelRequest], Model]] = {
    "anthropic/": _anthropic,
    "openai/": _openai,
    "responses/": _responses,
    "gemini/": _gemini,
    **{f"{kind}/": _local(kind) for kind in LOCAL_SERVERS},
}


def _provider_name(request: ModelRequest) -> str:
    name = request.rest
    if not name or not name.isprintable() or len(name) > 200 or name != name.strip():
        raise UsageError(f"{name[:80]!r} is not a model name; stackmem models lists the known models")
    return name
