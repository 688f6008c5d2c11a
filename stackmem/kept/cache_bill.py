"""What a recorded run would have cost under a model of the table, by the simulator of its provider's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.measure.cached_steps import Bill, CachedStep, bill, cached_steps
from stackmem.measure.moments import Moment, moments
from stackmem.measure.prefix import Count, PromptBlock, text_of
from stackmem.measure.requests import RequestUse, request_uses
from stackmem.models.catalog import ModelRow, lookup
from stackmem.models.tokens import count, learned_factor, o200k_tokens
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import Completions, sources_of


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
    row = lookup(model)
    if row is None:
        raise UsageError(f"no model {model!r} in the table of prices; stackmem models lists them")
    counter, counted = counter_for(lambda: moments_of(run_dir), row)
    steps = tuple(cached_steps(moments_of(run_dir), row.min_cache_tokens, counter))
    uses = tuple(request_uses(moments_of(run_dir), steps))
    return CacheBill(row.name, counted, row.min_cache_tokens, bill(steps, row.price), steps, uses)


def moments_of(run_dir: Path) -> Iterator[Moment]:
    """The moments of a run, those it shares with its parents first."""
    timed = ((record.at, record.event) for record in RunReader(run_dir))
    return moments(timed, Completions(sources_of(run_dir)).take)


def counter_for(run: Callable[[], Iterator[Moment]], row: ModelRow) -> tuple[Count, str]:
    """How blocks are counted: by what the run itself tells where it is of this model, else by the known factor.

    Args:
        run: Begins the run's moments anew.
    """
    factor = None
    begun = next(run()).after.begun
    if lookup(begun.model) == row:
        factor = learned_factor(
            (one.usage.prompt, one.recorded.prompt)
            for one in cached_steps(run(), 0, lambda block: o200k_tokens(text_of(block)))
            if one.sent and not one.recorded.estimated
        )

    def counter(block: PromptBlock) -> int:
        return count(text_of(block), row.name, factor).tokens

    return counter, count("", row.name, factor).source
