"""Renders every request of a recorded run again and passes it to the cache simulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from stackmem.core.facts import ContextCompacted, Event, ModelReplied
from stackmem.core.messages import Usage, View
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.requests import Compact
from stackmem.core.retries import wait_seconds
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory import open_strategy

from .cache import Cache, Cached, CacheRequest
from .moments import Moment, begins_request
from .prefix import Count
from .server_cache import ServerCache


class CachedStep(Struct, frozen=True):
    """A step, or a request for a summary, with the simulated effect of the cache on its prompt."""

    step: int  # for a summary, the step before it
    frame: str
    recorded: Usage  # as reported by the provider, or estimated, at the time
    cached: Cached
    usage: Usage  # by the simulator, with the recorded length of the reply
    # Whether the prompt rendered today equals the one that was sent. It differs if the rules have changed since, or if
    # the run was imported; then it only approximates the sent one.
    sent: bool
    compaction: bool = False  # whether it is a request for a summary
    request: int = 0  # number of the user's request that it belongs to, over all sessions; 0 if there is none


class Bill(Struct, frozen=True):
    """The cost of the steps of a run."""

    requests: int
    usage: Usage
    usd: float | None  # None without a price
    usd_without_cache: float | None  # the same prompts with every token at the full price
    not_sent: int = 0  # number of prompts that only approximate the ones that were sent
    # number of requests for each reason why a prefix broke; unbroken requests are left out
    broken: dict[str, int] = field(default_factory=dict)


def cached_steps(
    run: Iterable[Moment], minimum_tokens: int, count: Count, *, server_cache: bool = False
) -> Iterator[CachedStep]:
    """Yield every step and every summary of a run as cached for a model with this minimum.

    A request counts as sent when the record before its reply was written, plus the wait that the rules require. Failed
    attempts are assumed to cache nothing. Raise UsageError if the run's strategy is not installed.
    """
    cache, request = ServerCache(count) if server_cache else Cache(minimum_tokens, count), 0
    for moment in with_prompts(run):
        request += begins_request(moment)
        reply, before, view = moment.event, moment.before, moment.view
        if view is None or not isinstance(reply, ModelReplied | ContextCompacted):
            continue
        sent = min(moment.at, moment.at - moment.seconds + wait_seconds(before.failures))
        cached = cache.answer(CacheRequest(sent, view, literal=is_literal(reply)))
        yield CachedStep(
            step=moment.after.step,
            frame=before.running.id,
            recorded=reply.usage,
            cached=cached,
            usage=cached.usage(reply.usage.output),
            sent=reply.prompt_digest == view.digest,
            compaction=isinstance(reply, ContextCompacted),
            request=request,
        )


def with_prompts(run: Iterable[Moment]) -> Iterator[Moment]:
    """Yield the run with the prompt of every answer rendered, so that several folds can share it.

    Raise UsageError if a strategy of the run is not installed.
    """
    strategies: dict[str, MemoryStrategy] = {}
    for moment in run:
        answer, before = moment.event, moment.before
        if moment.view is None and isinstance(answer, ModelReplied | ContextCompacted):
            spelled = before.begun.strategy
            strategy = strategies.get(spelled) or strategies.setdefault(spelled, open_strategy(spelled))
            yield replace(moment, view=asked_view(strategy, before, answer))
        else:
            yield moment


def is_literal(answer: Event) -> bool:
    """Return whether a reply goes into later prompts as the model wrote it, without repairs."""
    return not isinstance(answer, ModelReplied) or answer.repairs is UNSET


def asked_view(strategy: MemoryStrategy, before: State, answer: ModelReplied | ContextCompacted) -> View:
    """Return the prompt that an answer belongs to: the next prompt, or the request for a summary."""
    effect = strategy.upkeep(before) if isinstance(answer, ContextCompacted) else None
    return effect.ask.view if isinstance(effect, Compact) else strategy.render(before)


def bill(steps: Iterable[CachedStep], price: Price | None) -> Bill:
    """Return the total cost of the steps."""
    usage, requests, usd, bare, not_sent = Usage(), 0, 0.0, 0.0, 0
    broken: dict[str, int] = {}
    for step in steps:
        usage += step.usage
        requests += 1
        not_sent += not step.sent
        if price is not None:
            usd += cost_usd(step.usage, price)
            bare += cost_usd(Usage(uncached=step.usage.prompt, output=step.usage.output), price)
        if step.cached.broken:
            broken[step.cached.broken] = broken.get(step.cached.broken, 0) + 1
    is_priced = price is not None
    return Bill(
        requests, usage, round(usd, 6) if is_priced else None, round(bare, 6) if is_priced else None, not_sent, broken
    )
