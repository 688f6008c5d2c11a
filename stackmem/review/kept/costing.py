"""The basis for the cost of a recorded run: prices, the wire format, token counts, and the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.pricing import Price
from stackmem.models.catalog import ModelRow, lookup
from stackmem.models.registry import is_served
from stackmem.models.tokens import LearnedCount, count, learned_count
from stackmem.review.measure.cached_steps import cached_steps
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.prefix import Count, PromptBlock, text_of
from stackmem.trace.imported import imported_from

from .sent import WireName, sent_text, wire_of

_WIRES: dict[str, WireName] = {"anthropic": "anthropic", "google": "gemini"}
_COUNTS_KEPT = 1 << 17
_SHORTEST_CACHED = 1_024  # the table's assumption for providers that do not document it
_O200K = "openai/gpt-5"  # its encoding is the base from which other counts are learned


class Costing(Struct, frozen=True):
    """The basis for the cost of a run."""

    model: str  # spelled as in the price table, otherwise as in the run
    wire: WireName
    price: Price | None  # None if it is not known
    minimum_tokens: int
    window_tokens: int
    own: bool = False  # whether it is the run's own model, so that the recorded counts show how it counts
    # a local server without a price: it costs evaluated tokens and seconds, and caches automatically
    free: bool = False


def costing_as(model: str, start: RunStarted) -> Costing:
    """Return the costing by a model of the table. Raise UsageError if the table does not contain the model."""
    row = lookup(model)
    if row is None:
        raise UsageError(f"no model {model!r} in the price table; stackmem models lists them")
    return _of_row(row, model, own=lookup(start.model) == row)


def own_costing(start: RunStarted, otherwise: str) -> Costing:
    """Return the costing by the run's own model, from the table or otherwise from the recording.

    ``otherwise`` is the model to use for an imported run or a model that stackmem cannot call.
    """
    row = lookup(start.model)
    as_text = start.text_calls == "prompt"
    if row is not None:
        costing = _of_row(row, start.model, own=True)
        return replace(costing, wire="text") if as_text else costing
    if imported_from(start) or not is_served(start.model):
        return costing_as(otherwise, start)
    free = start.price is None or not (start.price.input or start.price.output)
    wire: WireName = "text" if as_text else wire_of(start.model)
    return Costing(start.model, wire, start.price, _SHORTEST_CACHED, start.window_tokens, own=True, free=free)


def _of_row(row: ModelRow, spelled: str, *, own: bool) -> Costing:
    wire = wire_of(spelled) if "/" in spelled else _WIRES.get(row.provider, "openai")
    return Costing(row.name, wire, row.price, row.min_cache_tokens, row.window_tokens, own)


def counter_for(run: Callable[[], Iterable[Moment]], costing: Costing) -> tuple[Count, str]:
    """Return a counter of blocks and its description. It uses the run's own counts, otherwise the known factor.

    ``run`` restarts the iteration over the run's moments.
    """
    learned = learned_count(_pairs(run(), costing.wire)) if costing.own else None
    return BlockCounter(costing.wire, costing.model, learned), count("", costing.model, learned).source


def _pairs(run: Iterable[Moment], wire: WireName) -> Iterator[tuple[int, int]]:
    for step in cached_steps(run, 0, BlockCounter(wire, _O200K, None)):
        if step.sent and not step.recorded.estimated:
            yield step.usage.prompt, step.recorded.prompt


class BlockCounter:
    """Counts blocks in their wire format, each text once, because strategies mostly show the same texts again."""

    def __init__(self, wire: WireName, model: str, learned: LearnedCount | None) -> None:
        self._wire, self._model, self._learned = wire, model, learned
        self._counts: dict[tuple[str, str], int] = {}

    def __call__(self, block: PromptBlock) -> int:
        key = f"{block.place} {type(block.content).__name__}", text_of(block)
        if key not in self._counts:
            if len(self._counts) >= _COUNTS_KEPT:
                self._counts.clear()
            self._counts[key] = self._count(block)
        return self._counts[key]

    def _count(self, block: PromptBlock) -> int:
        tokens = _tokens(sent_text(self._wire, block), self._model, self._learned)
        return tokens + (self._learned.base if self._learned is not None and block.place == "system" else 0)


@lru_cache(maxsize=_COUNTS_KEPT >> 4)
def _tokens(text: str, model: str, learned: LearnedCount | None) -> int:
    """Count a text once per process instead of once per run, such as a tool's description or a document."""
    return count(text, model, learned).tokens
