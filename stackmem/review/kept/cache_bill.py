"""The cost of a recorded run under a model of the price table, from the simulator of its provider's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.review.measure.cached_steps import Bill, CachedStep, bill, cached_steps
from stackmem.review.measure.moments import Moment, moments
from stackmem.review.measure.requests import RequestUse, request_uses
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import Completions, sources_of

from .costing import costing_as, counter_for


class CacheBill(Struct, frozen=True):
    """The bill of a run under one model."""

    model: str
    counted: str  # how the tokens of texts were counted
    minimum_tokens: int  # the shortest prefix that the model's cache stores
    bill: Bill
    steps: tuple[CachedStep, ...]
    requests: tuple[RequestUse, ...] = ()  # for a conversation, the cost of each of the user's requests


def cache_bill(run_dir: Path, model: str) -> CacheBill:
    """Return the bill for a run's prompts under the cache of ``model``. Replies keep their length.

    Raise UsageError if the model is not in the table, or the run's strategy is not installed. Raise TraceError if the
    trace is broken.
    """
    costing = costing_as(model, next(moments_of(run_dir)).after.begun)
    counter, counted = counter_for(lambda: moments_of(run_dir), costing)
    steps = tuple(cached_steps(moments_of(run_dir), costing.minimum_tokens, counter))
    uses = tuple(request_uses(moments_of(run_dir), steps))
    return CacheBill(costing.model, counted, costing.minimum_tokens, bill(steps, costing.price), steps, uses)


def moments_of(run_dir: Path) -> Iterator[Moment]:
    """Yield the moments of a run, starting with those that it shares with its parents."""
    timed = ((record.at, record.event) for record in RunReader(run_dir))
    return moments(timed, Completions(sources_of(run_dir)).take)
