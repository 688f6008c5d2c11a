"""Spending limits of the gateway: money in total, and tokens per request.

- A limit is checked before a request goes upstream. Requests already in progress may still exceed it.
- With ``--max-usd``, models of unknown price are refused, because their cost cannot be counted.
- With any limit, requests that cannot be parsed are refused, because they cannot be counted. With ``--max-usd``, so
  are requests to unrecorded paths that may cost money.
"""

from __future__ import annotations

import re

from msgspec import Struct

from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.doors.gateway.wires.wire import ForeignRequest
from stackmem.models.catalog import lookup

CHARS_PER_TOKEN = 2.5
"""Lower than the usual ratio, so that estimates for code and English are high; our own runs use the same value."""


_FREE = re.compile(r"/(messages/count_tokens|files|uploads|moderations)/?$|:countTokens$|^/api/|/cancel$")
"""Paths of POST requests that cost nothing; ``/api/`` has Claude Code's own reports."""

UNREADABLE = (
    "stackmem gateway: the request cannot be read, so --max-usd and --max-tokens-per-request cannot count it; "
    "send JSON in the provider's format (plain, gzip, br or zstd), or start the gateway without these limits"
)


class GatewaySpending(Struct):
    """The amount spent so far, and the limits."""

    max_usd: float | None = None  # in total; None for no limit
    max_tokens: int | None = None  # estimated size of one prompt; None for no limit
    usd: float = 0.0
    unpriced: int = 0  # replies of models with unknown prices
    estimated: int = 0  # replies whose tokens are estimated

    @property
    def is_bounded(self) -> bool:
        return self.max_usd is not None or self.max_tokens is not None

    def refusal(self, request: ForeignRequest) -> str:
        """Return why a request must not be sent; empty if it may."""
        tokens = int(request.chars / CHARS_PER_TOKEN) if self.max_tokens is not None else 0
        if self.max_tokens is not None and tokens > self.max_tokens:
            return (
                f"stackmem gateway: the request has about {tokens:,} tokens and --max-tokens-per-request is "
                f"{self.max_tokens:,}; shorten the conversation, or raise the limit"
            )
        if self.max_usd is None:
            return ""
        row = lookup(request.model)
        if row is None or row.price is None:
            return (
                f"stackmem gateway: the price of {request.model[:80]!r} is unknown, so --max-usd cannot be enforced; "
                "leave --max-usd out, or use a model that stackmem models lists with a price"
            )
        # Not the expected cost of this request: how long a reply becomes is unknown before.
        if self.usd >= self.max_usd:
            return f"stackmem gateway: ${self.usd:.4f} of ${self.max_usd:.4f} (--max-usd) are spent; raise the limit"
        return ""

    def unrecorded(self, method: str, path: str) -> str:
        """Return why a request to an unrecorded path must not be sent; empty if it may."""
        # Other methods read or delete; only POST starts work that a provider bills.
        if self.max_usd is None or method != "POST" or _FREE.search(path):
            return ""
        return (
            f"stackmem gateway: requests to {path[:80]!r} are not recorded, so --max-usd cannot count them; "
            "leave --max-usd out to send them"
        )

    def spend(self, model: str, usage: Usage) -> None:
        row = lookup(model)
        self.estimated += usage.estimated
        if row is None or row.price is None:
            self.unpriced += usage.total > 0
        else:
            self.usd += cost_usd(usage, row.price)
