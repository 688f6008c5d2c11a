"""The model of a program's run that names none: most programs never ask for a reply."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import ModelFailed, RunStarted
from stackmem.core.pricing import Answerer, Price
from stackmem.core.requests import AskModel
from stackmem.core.state import State
from stackmem.errors import UsageError

from .request import Request

NOBODY = "nobody"


def with_model(request: Request, state: State, named: str | None) -> Request:
    """The request of a resumed run with the model that it has by now, where it had none when it began.

    Args:
        named: What the person says now, as ``--model`` takes it; None where she says nothing.

    Raises:
        UsageError: She names one, and the run has another.

    """
    own = state.begun.model
    if named is None:
        return replace(request, flags={**request.flags, "model": own}) if _had_none(request) else request
    kind, colon, script = named.partition(":")
    model = f"script:{Path(script).absolute()}" if colon and kind == "script" else named
    if own not in (NOBODY, model):
        raise UsageError(
            f"the run has the model {own}, and goes on with it; leave out --model, or take another one by stackmem fork"
        )
    return replace(request, flags={**request.flags, "model": model})


def _had_none(request: Request) -> bool:
    return request.program is not None and request.flags.get("model") == NOBODY


def answerer_of(start: RunStarted, limits: Limits) -> Answerer:
    """The model of a run as it is now assembled.

    Raises:
        UsageError: A limit of the cost cannot be kept with it.

    """
    if start.price is None and limits.usd is not None and not free(start.model):
        raise UsageError(
            f"no price of {start.model} is known, so the limit of {limits.usd:g} USD cannot be kept; "
            "use --max-usd none and --max-tokens"
        )
    return Answerer(start.model, start.price, start.window_tokens)


def free(name: str) -> bool:
    """Whether nobody is paid for what the model of that name says."""
    return name in {"human", "demo", NOBODY} or name.startswith(("script:", "sim/"))


class Nobody(Struct, frozen=True):
    """A run that asks for a reply ends, resumable with ``--model``."""

    name: str = NOBODY
    window_tokens: int = 200_000
    price: Price | None = None

    def reply(self, request: AskModel) -> ModelFailed:
        told = f"no model was named, and {request.frame!r} needs a reply; go on with stackmem resume RUN --model NAME"
        return ModelFailed("rejected", told)
