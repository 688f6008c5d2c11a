"""What a recorded run would have cost under a model of the table, by the simulator of its provider's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.measure.cached_steps import Bill, CachedStep, bill, cached_steps
from stackmem.measure.moments import Moment, moments
from stackmem.measure.requests import RequestUse, request_uses
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import Completions, sources_of

from .costing import costing_as, counter_for


class CacheBill(Struct, frozen=True):
    """The bill of a run under one model."""

    model: str
    counted: str  # how the tokens of texts were counted
    minimum_tokens: int  # the shortest prefix that the model's cache keeps
    bill: Bill
    steps: tuple[CachedStep, ...]
    requests: tuple[RequestUse, ...] = ()  # of a conversation, what each of the person's requests took


def cache_bill(run_dir: Path, model: str) -> CacheBill:
    """The prompts of a run as the cache of ``model`` would have served them; replies keep their length."""
    costing = costing_as(model, next(moments_of(run_dir)).after.begun)
    counter, counted = counter_for(lambda: moments_of(run_dir), costing)
    steps = tuple(cached_steps(moments_of(run_dir), costing.minimum_tokens, counter))
    uses = tuple(request_uses(moments_of(run_dir), steps))
    return CacheBill(costing.model, counted, costing.minimum_tokens, bill(steps, costing.price), steps, uses)


def moments_of(run_dir: Path) -> Iterator[Moment]:
    """The moments of a run, those it shares with its parents first."""
    timed = ((record.at, record.event) for record in RunReader(run_dir))
    return moments(timed, Completions(sources_of(run_dir)).take)
