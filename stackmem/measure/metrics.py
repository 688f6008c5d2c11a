"""The metrics of a run by name, each a fold; one pass over the run measures them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getdoc
from typing import Any, Protocol

from msgspec import Struct

from . import counts, losses, memory_use
from .counts import Total
from .moments import Moment

Value = int | float | None


class Fold(Protocol):
    """What a metric is made of: it is shown each moment of a run in turn, and then has a value."""

    def add(self, moment: Moment) -> None: ...

    @property
    def value(self) -> Value:
        """Of the moments so far; None where they hold nothing to tell it by."""


class Metric(Struct, frozen=True):
    """How something is measured.

    Attributes:
        unit: What one of it is.
        tells: What is counted, and why it matters.
        begin: A fold that has seen nothing yet.
    """

    unit: str
    tells: str
    begin: Callable[[], Fold]


def _summed(unit: str, amount: Callable[[Moment], float]) -> Metric:
    return Metric(unit, _said(amount), lambda: Total(amount))


def _folded(unit: str, fold: Callable[[], Fold]) -> Metric:
    return Metric(unit, _said(fold), fold)


def _said(what: Any) -> str:
    return " ".join((getdoc(what) or "").split())


METRICS: dict[str, Metric] = {
    "steps": _summed("replies", counts.steps),
    "model_calls": _summed("requests", counts.model_calls),
    "uncached_tokens": _summed("tokens", counts.uncached_tokens),
    "cache_read_tokens": _summed("tokens", counts.cache_read_tokens),
    "cache_write_5m_tokens": _summed("tokens", counts.cache_write_5m_tokens),
    "cache_write_1h_tokens": _summed("tokens", counts.cache_write_1h_tokens),
    "output_tokens": _summed("tokens", counts.output_tokens),
    "cost_usd": _folded("USD", counts.Cost),
    "peak_context_tokens": _folded("tokens", counts.PeakContext),
    "mean_context_tokens": _folded("tokens", counts.MeanContext),
    "memory_call_share": _folded("share of calls", memory_use.MemoryCallShare),
    "rereads": _folded("reads", losses.Rereads),
    "rediscoveries": _folded("commands", losses.Rediscoveries),
    "found_again": _folded("calls", losses.FoundAgain),
    "repeated_looks": _folded("calls", losses.RepeatedLooks),
    "heap_reads_per_write": _folded("reads per write", memory_use.ReadsPerWrite),
    "never_read_share": _folded("share of chunks", memory_use.NeverReadShare),
    "stale_reads": _summed("reads", memory_use.stale_reads),
    "false_pops": _summed("pops", losses.false_pops),
    "model_seconds": _summed("seconds", counts.model_seconds),
    "tools_seconds": _summed("seconds", counts.tools_seconds),
    "harness_seconds": _summed("seconds", counts.harness_seconds),
}
"""Name to metric, in the order they are shown."""


def measure(run: Iterable[Moment]) -> dict[str, Value]:
    """Every metric of a run; None where there is nothing to measure it by."""
    folds = {name: metric.begin() for name, metric in METRICS.items()}
    for moment in run:
        for fold in folds.values():
            fold.add(moment)
    return {name: fold.value for name, fold in folds.items()}
