"""The metrics of a run by name. Each is a fold, and one pass over the run measures them all.

The metrics of what a run used (replies, requests, tokens, money, time) are in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getdoc
from typing import Any, Protocol

from msgspec import UNSET, Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import (
    CallRejected,
    ContextCompacted,
    FramePopped,
    FramePushed,
    ModelFailed,
    ModelReplied,
    RunForked,
    RunResumed,
    ToolReturned,
)
from stackmem.core.messages import Usage
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.person_facts import WordsAsked
from stackmem.core.pricing import reply_usd

from . import memory_use
from .moments import Moment, Spender

Value = int | float | None
Kinds = Any
"""A type of events, or several in the form that ``isinstance`` accepts."""
_WITH_USAGE = ModelReplied | ContextCompacted | WordsAsked
_OTHER_USAGE = FrameReturned | RunResumed | RunForked | ToolReturned
"""Events with other usage: of parallel frames, and of web searches. A resume takes back what a frame returned that it
continues.
"""
_ANSWERS = ModelReplied | ModelFailed | ContextCompacted | WordsAsked
_HAND_OVERS = FramePushed | FramePopped
_LARGEST = 1 << 63  # beyond this, a table cannot store a whole number


class Fold(Protocol):
    """The fold behind a metric: it receives each moment of a run in turn, and then has a value.

    If it has ``kinds``, it receives only the moments of these events.
    """

    def add(self, moment: Moment) -> None: ...

    @property
    def value(self) -> Value:
        """The value for the moments so far, or None if they do not determine one."""


class Metric(Struct, frozen=True):
    """The definition of a metric.

    Attributes:
        unit: The unit of its value.
        tells: What is counted, and why it matters.
        begin: Returns a new fold.
    """

    unit: str
    tells: str
    begin: Callable[[], Fold]


class Total:
    """The sum of an amount per moment."""

    def __init__(self, amount: Callable[[Moment], float], kinds: Kinds = object) -> None:
        """Args:
        kinds: Events that may have an amount. Other events are skipped.
        """
        self._amount = amount
        self._sum: float = 0
        self.kinds = kinds

    def add(self, moment: Moment) -> None:
        self._sum += self._amount(moment)

    @property
    def value(self) -> float:
        return self._sum if isinstance(self._sum, int) else round(self._sum, 6)


class Cost:
    """Cost of the replies, summaries and web searches, with those of parallel frames, at the prices that the run
    recorded. None if any price is unknown.
    """

    kinds = _WITH_USAGE | _OTHER_USAGE

    def __init__(self) -> None:
        self._usd = 0.0
        self._is_priced = True

    def add(self, moment: Moment) -> None:
        if isinstance(moment.event, _OTHER_USAGE):
            self._is_priced = self._is_priced and moment.after.unpriced <= moment.before.unpriced
            self._usd += moment.after.usd - moment.before.usd
        if not isinstance(moment.event, _WITH_USAGE):
            return
        usd = reply_usd(moment.event.usage, moment.before.begun.price, moment.event.answerer)
        self._is_priced = self._is_priced and usd is not None
        self._usd += usd or 0.0

    @property
    def value(self) -> float | None:
        return round(self._usd, 6) if self._is_priced else None


class PeakContext:
    """The longest prompt, including requests for a summary. The run needed a window of at least this size."""

    kinds = _WITH_USAGE

    def __init__(self) -> None:
        self.value = 0

    def add(self, moment: Moment) -> None:
        self.value = max(self.value, context_tokens(moment), _usage(moment).prompt)


class MeanContext:
    """Mean length of the prompts. Attention, latency and the bill all grow with it."""

    kinds = ModelReplied

    def __init__(self) -> None:
        self._tokens, self._replies = 0, 0

    def add(self, moment: Moment) -> None:
        self._tokens += context_tokens(moment)
        self._replies += isinstance(moment.event, ModelReplied)

    @property
    def value(self) -> float | None:
        return round(self._tokens / self._replies, 1) if self._replies else None


def context_tokens(moment: Moment) -> int:
    """Return the prompt tokens of the moment's reply, estimated if not reported. 0 without a reply."""
    if not isinstance(moment.event, ModelReplied):
        return 0
    return moment.event.usage.prompt or moment.before.running.context_tokens


def mendings(moment: Moment) -> int:
    """Changes to requests and replies that the run needed to go on. Examples are a schema that the provider refused, a
    repeated call id, or arguments that were almost JSON. The trace has the reason of each.
    """
    changes = (getattr(moment.event, name, UNSET) for name in ("mended", "repairs"))
    return sum(len(each) for each in changes if each is not UNSET)


def _usage(moment: Moment) -> Usage:
    return moment.event.usage if isinstance(moment.event, _WITH_USAGE) else Usage()


def _summed(unit: str, amount: Callable[[Moment], float], tells: str = "", kinds: Kinds = object) -> Metric:
    """Return a metric that sums an amount. ``tells`` defaults to the docstring of ``amount``."""
    return Metric(unit, tells or _doc(amount), lambda: Total(amount, kinds))


def _folded(unit: str, fold: Callable[[], Fold]) -> Metric:
    return Metric(unit, _doc(fold), fold)


def _tokens(kind: str, tells: str) -> Metric:
    def amount(moment: Moment) -> int:
        other = isinstance(moment.event, _OTHER_USAGE)
        used = moment.after.usage.without(moment.before.usage) if other else _usage(moment)
        count: int = getattr(used, kind)
        return count

    return _summed("tokens", amount, tells, _WITH_USAGE | _OTHER_USAGE)


def _seconds(spender: Spender, tells: str) -> Metric:
    return _summed("seconds", lambda moment: moment.seconds if moment.spender == spender else 0.0, tells)


def _events(unit: str, kinds: Any, tells: str) -> Metric:
    return _summed(unit, lambda _: 1, tells, kinds)


def _doc(metric: Any) -> str:
    return " ".join((getdoc(metric) or "").split())


METRICS: dict[str, Metric] = {
    "steps": _events("replies", ModelReplied, "Replies of the model. Each of them costs its whole prompt again."),
    "model_calls": _events(
        "requests",
        _ANSWERS,
        "Requests to the model, including failed ones and those for a summary. If there are more requests than steps, "
        "the provider failed or the strategy compacts.",
    ),
    "uncached_tokens": _tokens(
        "uncached", "Prompt tokens neither read from nor written to the provider's cache, at the full price."
    ),
    "cache_read_tokens": _tokens("cache_read", "Prompt tokens read from the provider's cache, at the low price."),
    "cache_write_5m_tokens": _tokens(
        "cache_write_5m", "Prompt tokens written to the cache for five minutes, at 1.25 times the price."
    ),
    "cache_write_1h_tokens": _tokens(
        "cache_write_1h", "Prompt tokens written to the cache for an hour, at twice the price."
    ),
    "output_tokens": _tokens(
        "output", "Tokens of the replies, including thinking. These are the most expensive tokens."
    ),
    "cost_usd": _folded("USD", Cost),
    "peak_context_tokens": _folded("tokens", PeakContext),
    "mean_context_tokens": _folded("tokens", MeanContext),
    "memory_call_share": _folded("share of calls", memory_use.MemoryCallShare),
    "rereads": _folded("reads", memory_use.Rereads),
    "rediscoveries": _folded("commands", memory_use.Rediscoveries),
    "found_again": _folded("calls", memory_use.FoundAgain),
    "repeated_looks": _folded("calls", memory_use.RepeatedLooks),
    "heap_reads_per_write": _folded("reads per write", memory_use.ReadsPerWrite),
    "never_read_share": _folded("share of chunks", memory_use.NeverReadShare),
    "stale_reads": _summed("reads", memory_use.stale_reads),
    "false_pops": _summed("pops", memory_use.false_pops),
    "left_out": _summed("findings", memory_use.left_out, kinds=_HAND_OVERS),
    "checkpoints": _summed("hand-overs", memory_use.checkpoint_answers, kinds=CallRejected),
    "checkpoints_improved": _summed("hand-overs", memory_use.checkpoints_improved, kinds=_HAND_OVERS),
    "mendings": _summed("changes", mendings, kinds=_ANSWERS),
    "model_seconds": _seconds("model", "Wall time from each request to its answer, including waits between attempts."),
    "tools_seconds": _seconds("tools", "Wall time of commands, file access, verify commands and checks."),
    "harness_seconds": _seconds("harness", "Wall time of everything else, which is the overhead of stackmem itself."),
}
"""Maps names to metrics, in display order."""

SHIPPED = frozenset(METRICS)
"""The metrics of this package. Plug-ins add more."""


def measure(run: Iterable[Moment]) -> dict[str, Value]:
    """Return the value of every metric of a run, or None if the run does not determine it."""
    folds = {name: metric.begin() for name, metric in METRICS.items()}
    by_kind: dict[type, list[Fold]] = {}
    for moment in run:
        kind = type(moment.event)
        if kind not in by_kind:
            by_kind[kind] = [fold for fold in folds.values() if issubclass(kind, getattr(fold, "kinds", object))]
        for fold in by_kind[kind]:
            fold.add(moment)
    return {name: _figure(name, fold.value) for name, fold in folds.items()}


def _figure(name: str, value: object) -> Value:
    """Return the value in a form that a table can store.

    Raise UsageError if the value is not a number, or not finite.
    """
    if value is None or (isinstance(value, int | float) and abs(value) < _LARGEST):
        return value
    raise UsageError(f"the metric {name} is {str(value)[:60]!r}, not a finite number; fix the package that provides it")
