"""The run's own model, and beside it those that a program names: each is opened once, when it is first asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.pricing import Answerer
from stackmem.core.requests import AskModel
from stackmem.errors import UsageError
from stackmem.models.registry import Model, open_model
from stackmem.settings.settings import Settings

from .no_model import free


def open_other(name: str, settings: Settings, cwd: Path, limits: Limits, environ: Mapping[str, str]) -> Model:
    """The model that a program names.

    Args:
        cwd: What the path of a script is relative to.
        limits: Those of the run.

    Raises:
        UsageError: There is none of that name, its key is missing, or a limit of the cost could not be kept with it.

    """
    kind, colon, script = name.partition(":")
    if colon and kind == "script":
        name = f"script:{cwd / script}"
    url = settings.base_url if name.startswith("openai/") else None
    model = open_model(name, environ, base_url=url, seed=settings.seed)
    if model.price is None and limits.usd is not None and not free(model.name):
        raise UsageError(
            f"the limit of {limits.usd:g} USD cannot be kept, as no price of {model.name} is known, which the program "
            "asks; use --max-usd none and --max-tokens"
        )
    return model


class Models:
    """Asks the model that a request names; the run's own where it names none."""

    def __init__(self, own: Model, open_named: Callable[[str], Model]) -> None:
        """Keep the run's own model.

        Args:
            open_named: Opens another one by its name; raises ``UsageError``.

        """
        self._own, self._open = own, open_named
        self._opened: dict[str, Model] = {}
        self._lock = threading.Lock()

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """One attempt. A model that cannot be opened has failed for good, and the run can be resumed."""
        if request.model in ("", self._own.name):
            return self._own.reply(request)
        try:
            model = self._named(request.model)
        except UsageError as error:
            return ModelFailed("rejected", f"the model {request.model[:80]!r} of {request.frame!r}: {error}")
        answer = model.reply(request)
        if isinstance(answer, ModelFailed):
            return answer
        return replace(answer, answerer=Answerer(model.name, model.price, model.window_tokens))

    def _named(self, name: str) -> Model:
        with self._lock:  # completions of a group are asked side by side
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]
