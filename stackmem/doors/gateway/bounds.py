"""What a person lets the gateway spend: money in all, and tokens in one request.

Rule 1: a bound is held before a request goes upstream. What was under way then may still go beyond it.
Rule 2: with a bound of money, a model whose price is not known is refused: nobody could say when it is reached.
Rule 3: with any bound, a request that cannot be read is refused: it could not be counted.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.doors.gateway.wires.wire import ForeignRequest
from stackmem.models.catalog import lookup

CHARS_PER_TOKEN = 2.5
"""As in the rules of our own runs: on the safe side for code and English."""


UNREADABLE = (
    "stackmem gateway: the request cannot be read, so --max-usd and --max-tokens-per-request cannot count it; "
    "send JSON in the provider's format without compression, or start the gateway without bounds"
)


class GatewaySpending(Struct):
    """What was spent so far, held against the bounds."""

    max_usd: float | None = None  # in all; None for no bound
    max_tokens: int | None = None  # of one request's prompt, estimated; None for no bound
    usd: float = 0.0
    unpriced: int = 0  # replies of models whose price is not known

    @property
    def is_bounded(self) -> bool:
        return self.max_usd is not None or self.max_tokens is not None

    def refusal(self, request: ForeignRequest) -> str:
        """Why a request is not sent; empty where it is."""
        tokens = int(request.chars / CHARS_PER_TOKEN) if self.max_tokens is not None else 0
        if self.max_tokens is not None and tokens > self.max_tokens:
            return (
                f"stackmem gateway: the request has about {tokens:,} tokens and --max-tokens-per-request is "
                f"{self.max_tokens:,}; shorten the conversation, or raise the bound"
            )
        if self.max_usd is None:
            return ""
        row = lookup(request.model)
        if row is None or row.price is None:
            return (
                f"stackmem gateway: the price of {request.model[:80]!r} is not known, so --max-usd cannot be held; "
                "leave the bound out, or use a model that stackmem models lists with a price"
            )
        if self.usd >= self.max_usd:
            return f"stackmem gateway: ${self.usd:.4f} of ${self.max_usd:.4f} (--max-usd) are spent; raise the bound"
        return ""

    def spend(self, model: str, usage: Usage) -> None:
        row = lookup(model)
        if row is None or row.price is None:
            self.unpriced += usage.total > 0
        else:
            self.usd += cost_usd(usage, row.price)
