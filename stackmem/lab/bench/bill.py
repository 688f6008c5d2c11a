"""Bill a trial with the simulated provider cache and a simulated clock.

Requests are ``latency_seconds`` apart, no matter how long the trial took. Each request by the user after the first adds
``pause_seconds``. The bill of a trial is therefore the same on every machine and in every repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, json
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import (
    CallAnswered,
    ChunkAllocated,
    ChunkFreed,
    ChunkRead,
    ChunkWritten,
    ContextCompacted,
    FramePushed,
)
from stackmem.models.catalog import ModelRow, lookup
from stackmem.models.registry import is_served
from stackmem.review.kept.costing import costing_as, counter_for, own_costing
from stackmem.review.measure.cached_steps import CachedStep, bill, cached_steps
from stackmem.review.measure.moments import Moment, begins_request
from stackmem.review.measure.requests import columns, request_uses

PRICE = "claude-sonnet-5-5"
"""The model whose prices are used if the bench sets none and none of the bench's own models has a price."""
_ACTS = (CallAnswered, ChunkAllocated, ChunkFreed, ChunkRead, ChunkWritten, ContextCompacted, FramePushed)


class TrialBill(Struct, frozen=True):
    """Tokens by class under the cache rules of the last breakpoint, and USD at the model's own prices."""

    bill_uncached: int
    bill_read: int
    bill_write_5m: int
    bill_write_1h: int
    bill_output: int
    bill_usd: float | None
    cache_read_share: float | None  # share of all prompt tokens; None without any
    # prompts that the bill had to change; 0 unless a strategy breaks its contract
    not_sent: int
    # The requests that differ from sending the whole history, plus the strategy's own calls: rewritten prompts,
    # summaries, frames, chunks, notes and lookups. 0 if the strategy never acted.
    acted: int
    requests: str | None  # JSON with one list per figure and one value per request, for conversations; otherwise None


def trial_bill(run: Sequence[Moment], model: str, latency_seconds: float, pause_seconds: float = 0.0) -> TrialBill:
    """Return what the run's prompts and replies would have cost with ``model``.

    Raise UsageError if the model is not in the table.
    """
    steps, price = list[CachedStep](), None
    if run:
        start = run[0].after.begun
        costing = costing_as(model, start) if model else own_costing(start, PRICE)
        counter, _ = counter_for(lambda: run, costing)
        timed = _on_the_bills_clock(run, latency_seconds, pause_seconds)
        steps += cached_steps(timed, costing.minimum_tokens, counter, server_cache=costing.free)
        price = None if costing.free else costing.price
    totals, uses = bill(steps, price), request_uses(run, steps)
    used = totals.usage
    return TrialBill(
        bill_uncached=used.uncached,
        bill_read=used.cache_read,
        bill_write_5m=used.cache_write_5m,
        bill_write_1h=used.cache_write_1h,
        bill_output=used.output,
        bill_usd=totals.usd,
        cache_read_share=round(used.cache_read / used.prompt, 6) if used.prompt else None,
        not_sent=totals.not_sent,
        acted=sum(isinstance(moment.event, _ACTS) for moment in run) + sum(map(_rewritten, totals.broken.items())),
        requests=json.encode(columns(uses)).decode() if uses else None,
    )


def priced(model: str) -> ModelRow:
    """Return the model's row in the price table. Raise UsageError if the model is not in the table."""
    row = lookup(model)
    if row is None:
        raise UsageError(f"--price: no model {model[:80]!r} with known prices; stackmem models lists them")
    return row


def billed_by_themselves(models: Iterable[str]) -> bool:
    """Return whether every model is served by a server and missing from the price table."""
    return all(is_served(model) and lookup(model) is None for model in models)


def _rewritten(broken: tuple[str, int]) -> int:
    """Return the number of requests that did not extend the previous one because it was rewritten."""
    reason, requests = broken
    return requests if reason.endswith((" changed", " removed")) or reason == "new conversation" else 0


def _on_the_bills_clock(run: Iterable[Moment], latency_seconds: float, pause_seconds: float) -> Iterator[Moment]:
    """Set the time of each answer to one latency after the previous request, plus the user's pauses."""
    at, request_count = 0.0, 0
    for moment in run:
        if begins_request(moment):
            request_count += 1
            at += pause_seconds if request_count > 1 else 0.0
        if getattr(moment.event, "usage", None) is not None:
            yield replace(moment, at=at, since=at)
            at += latency_seconds
        else:
            yield moment
