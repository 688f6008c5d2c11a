"""What tokens cost: usage × the price row that the run recorded."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from .messages import Usage


class Price(Struct, frozen=True):
    """USD per million tokens of one model.

    Attributes:
        tier_above_tokens: Prompts longer than this cost ``tier_factor`` times as much, output included.
        tier_output_factor: Of the output there, where it is another one.
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
    """Another model than the run's own, which gave a reply.

    Attributes:
        window_tokens: Its context window; 0 where it is not known.
        price: None where it is unknown; the cost then is, too.
    """

    model: str
    price: Price | None = None
    window_tokens: int = 0


def reply_usd(usage: Usage, own: Price | None, answerer: Answerer | UnsetType) -> float | None:
    """USD of one reply or summary; None where its price is unknown.

    Args:
        own: The price of the run's own model.
        answerer: Who answered, where that is another model; one of which nothing was used costs nothing.
    """
    price = own if answerer is UNSET else answerer.price
    if price is None:
        return 0.0 if answerer is not UNSET and not usage.total else None
    return cost_usd(usage, price)


def cost_usd(usage: Usage, price: Price) -> float:
    """USD of one reply."""
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
