"""The models of a run: its own model, or a placeholder if it has none, and any that a program names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.images.vision import Vision
from stackmem.core.pricing import Answerer, Price, is_free
from stackmem.core.requests import AskModel
from stackmem.core.strategy import MemoryStrategy, ProviderStrategy, has_frames
from stackmem.memory.shared.offers import inherits
from stackmem.memory.small import STRATEGIES_FOR_SMALL, has_small_size
from stackmem.models.asked import Asked, read_headers, read_temperature
from stackmem.models.catalog import count_in_name
from stackmem.models.registry import NOBODY, Model, introduced, is_served, open_model, takes_address
from stackmem.models.web_search import ALTERNATIVE, SearchAnswer
from stackmem.settings.settings import Settings

from .in_memory import MEMORY
from .limits import check_usd
from .request import Request

SMALL_PARAMETERS = 9_000_000_000
"""Models with at most this many parameters count as small."""
SMALL_WINDOW_TOKENS = 8_192
"""Models with a window of at most this many tokens count as small: the full prompts would fill a third of it."""


class Nobody(Struct, frozen=True):
    """Placeholder model for a program run without a named model; most programs never need one.

    If the run does request a reply, it ends and can be resumed with ``--model``.
    """

    name: str = NOBODY
    window_tokens: int = 200_000
    price: Price | None = None

    def reply(self, request: AskModel) -> ModelFailed:
        detail = (
            f"no model was named, and {request.frame!r} needs a reply; continue with stackmem resume RUN --model NAME"
        )
        return ModelFailed("rejected", detail)


def is_small(size: str, model: Model, strategy: MemoryStrategy) -> bool:
    """Return whether the run uses the small prompts and tools."""
    if size == "small" and not has_small_size(strategy):
        names = ", ".join(STRATEGIES_FOR_SMALL)
        raise UsageError(f"the strategy {strategy.name} has no small size; leave --size out, or choose one of {names}")
    if size != "auto":
        return size == "small"
    if not is_served(model.name) or not has_small_size(strategy):
        return False
    parameters = getattr(model, "parameters", None) or count_in_name(model.name.partition("/")[2])
    few = parameters is not None and parameters <= SMALL_PARAMETERS
    return few or model.window_tokens <= SMALL_WINDOW_TOKENS


def refuse_other_provider(model: Model, strategy: MemoryStrategy) -> None:
    """Refuse a strategy that needs another provider. Models without a provider do the same by its rules.

    Raise UsageError if the model's provider cannot do what the strategy asks for.
    """
    if not isinstance(strategy, ProviderStrategy) or not is_served(model.name):
        return
    if not model.name.startswith(strategy.providers):
        forms = " or ".join(f"{prefix}NAME" for prefix in strategy.providers)
        raise UsageError(f"the strategy {strategy.name} needs a model of the form {forms}, not {model.name[:80]}")


def vision_in_force(model: Model, request: Request) -> Vision | None:
    """Return how the model of a run takes images. Runs in memory have none."""
    vision = getattr(model, "vision", None)
    possible = request.sees and request.resolved.settings.isolation != MEMORY
    return vision if possible and isinstance(vision, Vision) else None


def checkpoints_of(
    setting: Literal["auto", "on", "off"], strategy: MemoryStrategy, model: str
) -> Literal["on", "pops"] | UnsetType:
    """Return which hand-overs of a run are answered once. A child that inherits the conversation misses nothing."""
    default = strategy.name.partition(":")[0] == "stackheap" and is_served(model)
    if setting == "off" or not has_frames(strategy) or (setting == "auto" and not default):
        return UNSET
    return "pops" if inherits(strategy.tools) else "on"


def asked_of(settings: Settings, environ: Mapping[str, str]) -> Asked:
    """Return the provider options from the settings, everything besides the prompt.

    Raise UsageError if a temperature or a header is not valid.
    """
    return Asked(
        temperature=read_temperature(settings.temperature),
        effort=settings.effort,
        service_tier=settings.service_tier,
        headers=read_headers(settings.headers, environ),
        text_calls=settings.text_calls,
        vision=settings.vision,
        call_schema=settings.call_schema,
    )


def open_other(name: str, settings: Settings, cwd: Path, limits: Limits, environ: Mapping[str, str]) -> Model:
    """Open a model that a program names.

    ``cwd`` is the base of a relative path to a script. ``limits`` are the limits of the run. Raise UsageError if the
    model is unknown, its key is missing, or a cost limit cannot be enforced with it.
    """
    kind, colon, script = name.partition(":")
    if colon and kind == "script":
        name = f"script:{cwd / script}"
    url = settings.base_url if takes_address(name) else None
    options = asked_of(settings, environ)
    model = introduced(open_model(name, environ, base_url=url, seed=settings.seed, asked=options))
    check_usd(limits, model.name, model.price, explicit=True, label=f"{model.name}, which the program uses,")
    return model


class Models:
    """Sends each request to the model it names, or to the run's own model. Models are opened on first use."""

    def __init__(self, own: Model, open_named: Callable[[str], Model]) -> None:
        """Keep the run's own model and the function that opens others."""
        self._own, self._open = own, open_named
        self._opened: dict[str, Model] = {}
        self._lock = threading.Lock()

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Make one attempt. If the model cannot be opened, the failure is permanent, but the run can be resumed."""
        if request.model in ("", self._own.name):
            return self._own.reply(request)
        try:
            model = self._model_of(request.model)
        except UsageError as error:
            return ModelFailed("rejected", f"the model {request.model[:80]!r} of {request.frame!r}: {error}")
        answer = model.reply(request)
        if isinstance(answer, ModelFailed):
            return answer
        return replace(answer, answerer=Answerer(model.name, model.price, model.window_tokens))

    def search(self, query: str, domains: tuple[str, ...]) -> SearchAnswer:
        """Search the web with the run's own model. A model without a price has no fee for searches either."""
        search = getattr(self._own, "search", None)
        if search is None:
            return SearchAnswer(failure=f"{self._own.name[:80]} has no web search; {ALTERNATIVE}")
        answer: SearchAnswer = search(query, domains)
        return replace(answer, fee_usd=0.0) if is_free(self._own.price) else answer

    def _model_of(self, name: str) -> Model:
        with self._lock:  # completions of a group run in parallel threads
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]
