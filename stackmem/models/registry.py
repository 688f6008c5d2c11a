"""The models by name. To add one, write its module and add it to ``MODELS``.

The models of providers and servers are in ``stackmem.providers``, which is loaded when the first of them is opened.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.images.vision import Vision
from stackmem.core.messages import View
from stackmem.core.neighbors import neighbor
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel

from .asked import NOTHING_ASKED, Asked
from .catalog import read_price, rows
from .endpoint import ANTHROPIC
from .local_servers import LOCAL_SERVERS
from .vision import vision_of

DEFAULT_MODEL = "claude-sonnet-5-5"
SIMULATED = "bounded-reader"
NOBODY = "nobody"
"""Model name of a program's run without a model; the user names one if the run needs it."""
MIN_WINDOW_TOKENS = 1_000
_SCRIPT_WINDOW_TOKENS = 200_000
_WITH_ADDRESS = ("openai/", "responses/", "gemini/", *(f"{kind}/" for kind in LOCAL_SERVERS))


class Model(Protocol):
    """The source of a run's replies. One call is one attempt.

    Attributes:
        name: The name recorded in traces, accepted by ``open_model``.
        price: None if unknown; the cost is then unknown too.
    """

    @property
    def name(self) -> str: ...
    @property
    def window_tokens(self) -> int: ...
    @property
    def price(self) -> Price | None: ...
    def reply(self, request: AskModel) -> ModelReplied | ModelFailed: ...


@runtime_checkable
class HasServer(Protocol):
    """A model whose server can supply missing values, such as the window size."""

    def ask_server(self) -> None:
        """Fill missing values. Raise UsageError if no server answers at the address."""


@runtime_checkable
class HasTokenizer(Protocol):
    """A model that may count the tokens of a prompt exactly."""

    def count_prompt(self, view: View) -> int | None: ...


class ModelRequest(Struct, frozen=True):
    """Arguments for a model factory."""

    rest: str  # the name without its prefix
    environ: Mapping[str, str]
    base_url: str | None = None
    window_tokens: int | None = None
    demo: Path | None = None  # the task's own script
    seed: int | None = None  # only for models that support it
    price: Price | None = None  # given by the user; ignored by free models
    asked: Asked = NOTHING_ASKED  # only for providers' models


class _Replies(Protocol):
    def reply(self, request: AskModel) -> ModelReplied | ModelFailed: ...


class Scripted(Struct, frozen=True):
    """A script or a simulated policy under its requested name. It has only the price that the user gives."""

    name: str
    window_tokens: int
    script: _Replies
    price: Price | None = None
    vision: Vision | None = None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        return self.script.reply(request)


def open_model(
    name: str,
    environ: Mapping[str, str],
    *,
    base_url: str | None = None,
    window_tokens: int | None = None,
    demo: Path | None = None,
    seed: int | None = None,
    price: str | None = None,
    asked: Asked = NOTHING_ASKED,
) -> Model:
    """Open the model named by ``--model``, without contacting a server yet (see ``introduced``).

    Raise UsageError if the kind of model is unknown, its key is missing, or its address or script is not valid.
    """
    spelled = f"anthropic/{name}" if name.startswith("claude-") else name
    prefix = next((prefix for prefix in MODELS if _has(spelled, prefix)), None)
    if prefix is None:
        raise UsageError(f"no model {name[:80]!r}; {_way_out(name)}")
    if base_url is not None and not takes_address(prefix):
        way_out = f"set {ANTHROPIC.url_variable}" if prefix == "anthropic/" else "leave it out"
        raise UsageError(
            f"a base URL works with openai/NAME, responses/NAME and gemini/NAME, not with {name[:80]}; {way_out}, "
            "or pass --base-url none"
        )
    if window_tokens is not None and window_tokens < MIN_WINDOW_TOKENS:
        raise UsageError(f"a context window of {window_tokens} tokens is too small for a prompt; use at least 1000")
    paid = read_price(price) if price is not None else None
    model = MODELS[prefix](
        ModelRequest(spelled[len(prefix) :], environ, base_url, window_tokens, demo, seed, paid, asked)
    )
    missing = [member for member in ("name", "window_tokens", "price", "reply") if not hasattr(model, member)]
    if missing:
        without = " and no ".join(missing)
        raise UsageError(f"the model {name[:80]!r} has no {without}; fix or uninstall the package that provides it")
    return model


def introduced(model: Model) -> Model:
    """Ask the model's server for missing values such as the window size, if it has a server; return the model.

    Raise UsageError if no server answers at the address.
    """
    if isinstance(model, HasServer):
        model.ask_server()
    return model


def default_model(environ: Mapping[str, str]) -> str:
    """Return Claude if its key is set, else the task's demo script."""
    return DEFAULT_MODEL if environ.get(ANTHROPIC.key_variable, "").strip() else "demo"


def is_served(name: str) -> bool:
    """Return whether replies come from a provider or server, and not from a script, the user or a simulation."""
    return name.startswith(("anthropic/", *_WITH_ADDRESS))


def takes_address(name: str) -> bool:
    """Return whether ``--base-url`` applies to a model of this name."""
    return name.startswith(_WITH_ADDRESS)


def unready(environ: Mapping[str, str]) -> dict[str, str]:
    """Map provider prefixes to the reason why their models cannot be used; empty if they can."""
    problems: dict[str, str] = {}
    for prefix in ("anthropic/", "openai/", "gemini/"):
        try:
            MODELS[prefix](ModelRequest("any", environ))
            problems[prefix] = ""
        except UsageError as error:
            problems[prefix] = str(error)
    return problems


def is_free(name: str) -> bool:
    """Return whether replies of this model are free."""
    return name in ("human", "demo", NOBODY) or name.startswith(
        ("script:", "sim/", *(f"{kind}/" for kind in LOCAL_SERVERS))
    )


def _served(prefix: str) -> Callable[[ModelRequest], Model]:
    """Make a factory that loads the provider's module when the first model is opened."""

    def make(request: ModelRequest) -> Model:
        model: Model = neighbor("providers: models by prefix")[prefix](request)
        return model

    return make


def _human(request: ModelRequest) -> Model:
    model: Model = neighbor("doors: a person as the model")(window_tokens=request.window_tokens)
    return model


def _script(request: ModelRequest) -> Model:
    if not request.rest:
        raise UsageError("script: needs a file; name one, as in script:replies.yaml")
    script = neighbor("lab: open a scripted model").from_file(Path(request.rest))
    window = request.window_tokens or _SCRIPT_WINDOW_TOKENS
    return Scripted(f"script:{request.rest}", window, script, request.price, _script_vision(request))


def _demo(request: ModelRequest) -> Model:
    if request.demo is None:
        raise UsageError("this task has no demo.yaml; choose a model, such as --model claude-sonnet-5-5 or script:FILE")
    script = neighbor("lab: open a scripted model").from_file(request.demo)
    window = request.window_tokens or _SCRIPT_WINDOW_TOKENS
    return Scripted("demo", window, script, request.price, _script_vision(request))


def _script_vision(request: ModelRequest) -> Vision | None:
    """Return how a script takes images, which it does only if the user says so."""
    return vision_of("script", "on" if request.asked.vision == "on" else "off")


def _simulated(request: ModelRequest) -> Model:
    name, _, variant = request.rest.partition(":")
    if name != SIMULATED:
        raise UsageError(f"no simulated model {request.rest[:80]!r}; the only one is sim/{SIMULATED}")
    window = request.window_tokens or _SCRIPT_WINDOW_TOKENS
    policy = neighbor("lab: open a simulated model")(variant, window, SIMULATED)
    return Scripted(f"sim/{request.rest}", window, policy, request.price)


MODELS: dict[str, Callable[[ModelRequest], Model]] = {
    **{prefix: _served(prefix) for prefix in ("anthropic/", *_WITH_ADDRESS)},
    "script:": _script,
    "demo": _demo,
    "sim/": _simulated,
    "human": _human,
}
"""Prefix ending in ``/`` or ``:``, or complete name, to the model's factory."""


def _has(name: str, prefix: str) -> bool:
    return name.startswith(prefix) if prefix[-1] in "/:" else name == prefix


def kinds() -> str:
    """Describe the forms of model names; those of plug-ins come last."""
    rest = {"script:": "FILE", "sim/": SIMULATED}
    words = [f"{prefix}{rest.get(prefix, 'NAME' if prefix[-1] in '/:' else '')}" for prefix in MODELS]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _way_out(name: str) -> str:
    known_kinds = f"valid forms are {kinds()}"
    names = [row.name for row in rows()]
    near = difflib.get_close_matches(name, [*names, *(prefix.rstrip("/:") for prefix in MODELS)], 2, 0.7)
    if near:
        return f"{known_kinds}; did you mean {' or '.join(near)}?"
    return f"{known_kinds}; stackmem models lists the known names"
