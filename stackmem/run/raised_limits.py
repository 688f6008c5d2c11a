"""The limits under which a run goes on: those it had, with what the person says over them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import RunStarted
from stackmem.errors import UsageError
from stackmem.settings.option_values import Place, read_value
from stackmem.settings.options import OPTIONS

_FIELDS = {"max_steps": "steps", "max_tokens": "tokens", "max_usd": "usd", "max_seconds": "seconds"}


def raised(limits: Limits, start: RunStarted, wanted: Mapping[str, str | None]) -> Limits:
    """``limits`` with those that ``wanted`` names: ``50`` counts from the run's start, ``+50`` from the limit it had.

    Raises:
        UsageError: A value is not accepted; a limit that is not there cannot be raised, one of the cost not be kept.

    """
    values: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        given = wanted.get(name)
        if given is not None:
            values[field] = _value(name, given, getattr(limits, field), field)
    free = start.model in ("human", "demo") or start.model.startswith("script:")
    if values.get("usd") is not None and start.price is None and not free:
        raise UsageError(f"no price of {start.model} is known, so a limit of USD cannot be kept; use --max-tokens")
    return replace(limits, **values)


def _value(name: str, given: str, had: float | None, field: str) -> float | None:
    option = OPTIONS[name]
    text = given.strip()
    place = Place(option.flag, folder=Path(), home="")
    if not text.startswith("+"):
        number: float | None = read_value(option, text, place)
        return number
    more: float | None = read_value(option, text[1:].strip(), place)
    if more is None:
        raise UsageError(f"{option.flag} {text[:20]!a} raises by no number; write +N, N, or none for no limit")
    if had is None:
        raise UsageError(
            f"{option.flag} {text[:20]!a} raises a limit, and the run has none of its {field}; leave it out"
        )
    return had + more
