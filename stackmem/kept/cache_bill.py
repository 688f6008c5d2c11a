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
    """The bill of a run under one model.

    Attributes:
        counted: How the tokens of texts were counted.
        requests: Of a conversation, what each of the person's requests took.
        minimum_tokens: The shortest prefix that the model's cache keeps.
    """

    model: str
    counted: str
    minimum_tokens: int
    bill: Bill
    steps: tuple[CachedStep, ...]
    requests: tuple[RequestUse, ...] = ()


def cache_bill(run_dir: Path, model: str) -> CacheBill:
    """The prompts of a run as the cache of ``model`` would have served them; replies keep their length.

    Raises:
        UsageError: The table has no such model, or the run's strategy is not installed.
        TraceError: The trace is broken.
    """
    costing = costing_as(model, next(moments_of(run_dir)).after.begun)
    counter, counted = counter_for(lambda: moments_of(run_dir), costing)
    steps = tuple(cached_steps(moments_of(run_dir), costing.minimum_tokens, counter))
    uses = tuple(request_uses(moments_of(run_dir), steps))
    return CacheBill(costing.model, counted, costing.minimum_tokens, bill(steps, costing.price), steps, uses)


def moments_of(run_dir: Path) -> Iterator[Moment]:
    """The moments of a run, those it shares with its parents first."""
    timed = ((record.at, record.event) for record in RunReader(run_dir))
    return moments(timed, Completions(sources_of(run_dir)).take)
