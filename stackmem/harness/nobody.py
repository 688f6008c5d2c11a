"""The model of a program's run that names none: most programs never ask for a reply."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.effects import AskModel
from stackmem.core.events import ModelFailed
from stackmem.core.pricing import Price

NOBODY = "nobody"


class Nobody(Struct, frozen=True):
    """A run that asks for a reply ends, resumable with ``--model``."""

    name: str = NOBODY
    window_tokens: int = 200_000
    price: Price | None = None

    def reply(self, request: AskModel) -> ModelFailed:
        told = f"no model was named, and {request.frame!r} needs a reply; run it with --model NAME"
        return ModelFailed("rejected", told)
