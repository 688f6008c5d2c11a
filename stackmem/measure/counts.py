"""What a run took: replies, requests, tokens, money, time."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.facts import ContextCompacted, ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import reply_usd

from .moments import Moment


class Total:
    """The sum of what each moment adds."""

    def __init__(self, amount: Callable[[Moment], float]) -> None:
        self._amount = amount
        self._sum: float = 0

    def add(self, moment: Moment) -> None:
        self._sum += self._amount(moment)

    @property
    def value(self) -> float:
        return self._sum if isinstance(self._sum, int) else round(self._sum, 6)


def steps(moment: Moment) -> int:
    """Replies of the model. Each is paid for with the whole prompt before it."""
    return int(isinstance(moment.event, ModelReplied))


def model_calls(moment: Moment) -> int:
    """Requests to the model, those that failed and those for a summary included. More than the steps: the provider was
    in the way, or the strategy compacts.
    """
    return int(isinstance(moment.event, ModelReplied | ModelFailed | ContextCompacted))


def uncached_tokens(moment: Moment) -> int:
    """Prompt tokens neither read from nor written to the provider's cache: the full price."""
    return _usage(moment).uncached


def cache_read_tokens(moment: Moment) -> int:
    """Prompt tokens read from the provider's cache: the low price."""
    return _usage(moment).cache_read


def cache_write_5m_tokens(moment: Moment) -> int:
    """Prompt tokens written to the cache for five minutes: 1.25 times the price."""
    return _usage(moment).cache_write_5m


def cache_write_1h_tokens(moment: Moment) -> int:
    """Prompt tokens written to the cache for an hour: twice the price."""
    return _usage(moment).cache_write_1h


def output_tokens(moment: Moment) -> int:
    """Tokens of the replies, thinking included: the dearest ones."""
    return _usage(moment).output


def model_seconds(moment: Moment) -> float:
    """Wall time from each request to its answer, waits between attempts included."""
    return moment.seconds if moment.spender == "model" else 0.0


def tools_seconds(moment: Moment) -> float:
    """Wall time of commands, files, verify and checks."""
    return moment.seconds if moment.spender == "tools" else 0.0


def harness_seconds(moment: Moment) -> float:
    """Wall time of everything else: what stackmem itself costs."""
    return moment.seconds if moment.spender == "harness" else 0.0


class Cost:
    """What the replies and summaries cost, each by the price its run recorded. None where one has no known price."""

    def __init__(self) -> None:
        self._usd = 0.0
        self._known = True

    def add(self, moment: Moment) -> None:
        if not isinstance(moment.event, ModelReplied | ContextCompacted):
            return
        usd = reply_usd(moment.event.usage, moment.before.begun.price, moment.event.answerer)
        self._known = self._known and usd is not None
        self._usd += usd or 0.0

    @property
    def value(self) -> float | None:
        return round(self._usd, 6) if self._known else None


class PeakContext:
    """The longest prompt, requests for a summary included. It says how large a window the run needed."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, moment: Moment) -> None:
        self.value = max(self.value, context_tokens(moment), _usage(moment).prompt)


class MeanContext:
    """Mean length of the prompts. Attention, latency and the bill all grow with it."""

    def __init__(self) -> None:
        self._tokens, self._replies = 0, 0

    def add(self, moment: Moment) -> None:
        self._tokens += context_tokens(moment)
        self._replies += isinstance(moment.event, ModelReplied)

    @property
    def value(self) -> float | None:
        return round(self._tokens / self._replies, 1) if self._replies else None


def context_tokens(moment: Moment) -> int:
    """Prompt tokens of the reply that the moment brings, estimated where none were reported; 0 without a reply."""
    if not isinstance(moment.event, ModelReplied):
        return 0
    return moment.event.usage.prompt or moment.before.running.context_tokens


def _usage(moment: Moment) -> Usage:
    return moment.event.usage if isinstance(moment.event, ModelReplied | ContextCompacted) else Usage()
