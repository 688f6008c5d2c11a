"""The known models: what they cost, what they take, what they can. The figures stand in ``prices.toml``."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal

from msgspec import Struct, convert
from msgspec.structs import replace

from stackmem.core.pricing import Price

_PRICES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
_PROVIDER = re.compile(r"^anthropic/")
_DAY = re.compile(r"-20\d{6}$")


class ModelRow(Struct, frozen=True, forbid_unknown_fields=True, rename=lambda name: name.removesuffix("_tokens")):
    """One model of the table, whose columns are in tokens and do not say so again.

    Attributes:
        name: As the provider spells it, without a date.
        max_output_tokens: The longest reply the model gives, thinking included.
        min_cache_tokens: A shorter prefix is not cached.
        thinking: ``adaptive`` is asked for; ``manual`` is not.
        price: None where no source names one.
    """

    name: str
    window_tokens: int
    max_output_tokens: int
    min_cache_tokens: int
    forced_tool_use: bool
    thinking: Literal["adaptive", "manual"]
    source: str
    price: Price | None = None


def lookup(name: str) -> ModelRow | None:
    """The row of ``name``, which may carry ``anthropic/`` before it and a release day (``-20251001``) after it."""
    return _table().get(_DAY.sub("", _PROVIDER.sub("", name)))


def rows() -> tuple[ModelRow, ...]:
    """Every known model, in the table's order."""
    return tuple(_table().values())


@cache
def _table() -> dict[str, ModelRow]:
    text = resources.files("stackmem.models").joinpath("prices.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return {entry["name"]: _row(entry, table["source"], str(table["read"])) for entry in table["model"]}


def _row(entry: dict[str, Any], sources: dict[str, str], read: str) -> ModelRow:
    source = f"{sources[entry['source']]}; read {read}"
    figures = {name: entry[name] for name in _PRICES if name in entry}
    sizes = {name: value for name, value in entry.items() if name not in (*_PRICES, "tier_above", "tier_factor")}
    price = None
    if figures:
        price = Price(
            **figures,
            source=source,
            tier_above_tokens=entry.get("tier_above"),
            tier_factor=entry.get("tier_factor", 1.0),
        )
    return replace(convert({**sizes, "source": source}, ModelRow), price=price)
