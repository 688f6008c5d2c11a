"""The known models with prices, limits and abilities, read from ``prices.toml``."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal

from msgspec import UNSET, Struct, convert
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.pricing import Price

_MAX_USD = 1_000_000.0
_PRICES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
_TIERS = ("tier_above", "tier_factor", "tier_output_factor")
_DAY = re.compile(r"-20\d{6}$")

TIMES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_EXPERTS = re.compile(r"(?<![a-z0-9.])(\d{1,3})x(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])", re.IGNORECASE)
_IN_NAME = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,3})?)([mb])(?![a-z0-9])", re.IGNORECASE)


class ModelRow(Struct, frozen=True, forbid_unknown_fields=True, rename=lambda name: name.removesuffix("_tokens")):
    """One model of the table. All columns are in tokens, so their names in the file omit the word."""

    name: str  # the provider's spelling, without a date
    window_tokens: int
    max_output_tokens: int  # longest reply, including thinking
    source: str
    min_cache_tokens: int = 1_024  # shorter prefixes are not cached
    thinking: Literal["adaptive", "manual"] = "manual"  # thinking is requested if ``adaptive``, but not if ``manual``
    price: Price | None = None  # None if no source states it
    vision: bool = True  # whether it sees images
    # provider of the model; Google's models are used as ``gemini/NAME``, others as ``openai/NAME``
    provider: Literal["anthropic", "openai", "google", "deepseek"] = "anthropic"


def lookup(name: str) -> ModelRow | None:
    """Find a model by name, ignoring a prefix (``openai/``) and a date suffix (``-20251001``)."""
    prefix, slash, rest = name.partition("/")
    row = _table().get(_DAY.sub("", rest if slash else name))
    if row is None or (slash and (prefix == "anthropic") != (row.provider == "anthropic")):
        return None
    return row


def read_price(text: str) -> Price:
    """Parse ``--price``: ``IN,OUT[,READ[,WRITE]]``, or the name of a known model.

    Cache prices that are left out equal the input price. Raise UsageError if the text is not a price or a known model.
    """
    row = lookup(text.strip())
    if row is not None and row.price is not None:
        return row.price
    try:
        figures = [float(figure) for figure in text.split(",")]
    except ValueError:
        figures = []
    if not 2 <= len(figures) <= 4 or not all(0 <= figure <= _MAX_USD for figure in figures):
        raise UsageError(
            f"--price {text[:80]!r} is not a price; write IN,OUT[,READ[,WRITE]] in USD per million tokens, or the name "
            "of a model that stackmem models lists with a price"
        )
    paid, output = figures[:2]
    read = figures[2] if len(figures) > 2 else paid
    write = figures[3] if len(figures) > 3 else paid
    return Price(paid, output, write, write, read, f"given by --price {text.strip()}")


def rows() -> tuple[ModelRow, ...]:
    """Return all known models in the table's order."""
    return tuple(_table().values())


@cache
def _table() -> dict[str, ModelRow]:
    text = resources.files("stackmem.models").joinpath("prices.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return {entry["name"]: _row(entry, table["source"], str(table["read"])) for entry in table["model"]}


def _row(entry: dict[str, Any], sources: dict[str, str], read: str) -> ModelRow:
    source = f"{sources[entry['source']]}; read {read}"
    figures = {name: entry[name] for name in _PRICES if name in entry}
    sizes = {name: value for name, value in entry.items() if name not in (*_PRICES, *_TIERS)}
    price = None
    if figures:
        price = Price(
            **figures,
            source=source,
            tier_above_tokens=entry.get("tier_above"),
            tier_factor=entry.get("tier_factor", 1.0),
            tier_output_factor=entry.get("tier_output_factor", UNSET),
        )
    return replace(convert({**sizes, "source": source}, ModelRow), price=price)


def count_in_name(name: str) -> int | None:
    """Return the parameter count from a name such as ``qwen2.5-coder:1.5b`` or ``Mixtral-8x7B``; None without one."""
    experts = _EXPERTS.search(name)
    if experts is not None:
        return int(int(experts[1]) * float(experts[2]) * 1e9)
    counts = [float(size) * TIMES[unit.upper()] for size, unit in _IN_NAME.findall(name)]
    return int(max(counts)) if counts and max(counts) >= 1 else None
