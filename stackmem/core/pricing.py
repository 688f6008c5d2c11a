"""The cost of tokens: usage × the price row that the run recorded."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from .messages import Usage


class Price(Struct, frozen=True):
    """USD per million tokens of one model.

    Attributes:
        tier_above_tokens: Requests with longer prompts cost ``tier_factor`` times as much, output included.
        tier_output_factor: The factor for the output of such requests, if it differs.
        source: Where and when the figures were read.
    """

    input: float
    output: float
    cache_write_5m: float
    cache_write_1h: float
    cache_read: float
    source: str
    tier_above_tokens: int | None = None
    tier_factor: float = 1.0
    tier_output_factor: float | UnsetType = UNSET


class Answerer(Struct, frozen=True):
    """A model other than the run's own, which gave a reply.

    Attributes:
        window_tokens: Its context window, or 0 if it is not known.
        price: None if it is unknown; the cost is then unknown too.
    """

    model: str
    price: Price | None = None
    window_tokens: int = 0


def is_free(price: Price | None) -> bool:
    """Return whether tokens are known to cost nothing."""
    return price is not None and not (price.input or price.output)


def reply_usd(usage: Usage, own: Price | None, answerer: Answerer | UnsetType) -> float | None:
    """Return the USD of one reply or summary, or None if the price is unknown.

    Args:
        own: The price of the run's own model.
        answerer: The model that answered, if it is another one. Without any usage it costs nothing, even unpriced.
    """
    price = own if answerer is UNSET else answerer.price
    if price is None:
        return 0.0 if answerer is not UNSET and not usage.total else None
    return cost_usd(usage, price)


def cost_usd(usage: Usage, price: Price) -> float:
    """Return the USD of one reply."""
    prompt = (
        usage.uncached * price.input
        + usage.cache_read * price.cache_read
        + usage.cache_write_5m * price.cache_write_5m
        + usage.cache_write_1h * price.cache_write_1h
    )
    output = usage.output * price.output
    if price.tier_above_tokens is None or usage.prompt <= price.tier_above_tokens:
        return (prompt + output) / 1_000_000
    if price.tier_output_factor is UNSET:
        return (prompt + output) * price.tier_factor / 1_000_000
    return (prompt * price.tier_factor + output * price.tier_output_factor) / 1_000_000
