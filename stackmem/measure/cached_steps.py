"""The cache's part in a recorded run: every request rendered again and given to the simulator."""

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
    """A step, or a request for a summary, with what the cache would have done for its prompt."""

    step: int  # of a summary the step before it
    frame: str
    recorded: Usage  # what the provider reported, or what was estimated, at the time
    cached: Cached
    usage: Usage  # by the simulator; the reply is as long as it was
    # whether the prompt rendered today is the very one that was sent. It is not where the rules have changed since, or
    # where the run was imported: then it stands in for it
    sent: bool
    compaction: bool = False  # whether it is a request for a summary
    request: int = 0  # number of the person's request that it belongs to, over all sessions; 0 where there is none


class Bill(Struct, frozen=True):
    """What the steps of a run cost."""

    requests: int
    usage: Usage
    usd: float | None  # none without a price
    usd_without_cache: float | None  # the same prompts with every token at the full price
    not_sent: int = 0  # prompts that only stand in for those that were sent
    # why prefixes broke, each reason with its number of requests; requests that went on are not in it
    broken: dict[str, int] = field(default_factory=dict)


def cached_steps(
    run: Iterable[Moment], minimum_tokens: int, count: Count, *, server_cache: bool = False
) -> Iterator[CachedStep]:
    """Every step and every summary of a run under the cache of a model with this minimum.

    A request is sent when the record before its reply was written, and after the wait that the rules ask for. Attempts
    that failed are taken to have cached nothing.
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
    """The run with the prompt of every answer rendered, for several folds to share."""
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
    """Whether a reply goes back into later prompts as the model wrote it: nothing in it was repaired."""
    return not isinstance(answer, ModelReplied) or answer.repairs is UNSET


def asked_view(strategy: MemoryStrategy, before: State, answer: ModelReplied | ContextCompacted) -> View:
    """What was asked in the state before an answer: the next prompt, or the request for a summary."""
    wanted = strategy.upkeep(before) if isinstance(answer, ContextCompacted) else None
    return wanted.ask.view if isinstance(wanted, Compact) else strategy.render(before)


def bill(steps: Iterable[CachedStep], price: Price | None) -> Bill:
    """What the steps cost together."""
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
    known = price is not None
    return Bill(requests, usage, round(usd, 6) if known else None, round(bare, 6) if known else None, not_sent, broken)
