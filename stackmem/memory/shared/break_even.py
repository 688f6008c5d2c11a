"""Computes when a frame pays off, in steps, from the prices of a run and the lengths of a conversation.

Amounts are in tokens, prices relative to an input token. *r* is the price of a token read from the cache, *w* of one
written to it and *o* of an output token.

1. n more steps in a conversation of H tokens read H n times, which costs ``r H n``.
2. A frame for these steps costs K in addition to its work: two replies, a push and a pop, at ``o + w``; its opening
   with the index, and its result, at ``w``. The step with the push and the one after the pop still read H. If the
   prompt and tools are counted, both replies read them at *r*, and so does each lookup.
3. A frame does not see H and looks up some of its results again: up to three times in ten steps, at a cost of L each, a
   call at ``o + w`` and a result at ``w``. Long results contain more of what is used later. So their length is taken
   between the mean step and the step of the mean token: the root mean square of the steps.
4. So a frame for the next n steps pays off if ``r H (n - 2) > K + 0.3 n L``, provided that H is still cached when it
   ends.
5. Steps of g tokens each, in frames of n, cost ``K / n + r g n / 2 + 0.3 L`` per step in addition to what they write.
   The minimum is at ``n = sqrt(2 K / (r g))``: the phase.
6. Two frames of n steps cost less than one conversation of both if ``2 K + r g n² < 2 r g n²``. By 4, this is the case
   if each is a phase. So work of more than two phases pays off in frames from its start, before any history has grown.
7. A parent of m phases reads its own pushes and results m times: more than two phases of phases are better grouped.
8. A phase must end while the parent's cache entry is alive: at most half of that time, which leaves room for the
   handover.
9. The remaining work is unknown. If the run ends soon after a push, the frame has cost K for nothing. So the advice to
   push comes only once K is a small share of the conversation's cost so far, and a whole phase pays off.
10. After a pause longer than the entry's life, a request writes its whole prompt again, at *w* instead of *r*. So *r*
    is the mean over the steps so far, if the run has a clock.

Source: docs/strategies.md, When a frame pays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import ceil, exp, fsum, sqrt

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.pricing import Price

LIFE_SECONDS, HOUR_SECONDS = 300.0, 3_600.0
"""Lifetime of a cache entry, and of one for which an hour is paid."""
STEP_SECONDS = 10.0
"""Time from one request to the next, as assumed for bills."""
_CALL_TOKENS = 150
"""Tokens of a reply that pushes or pops, with its texts and chunks. This and the next number were measured on
recordings cut into frames.
"""
_TEXT_TOKENS = 400
"""Tokens of a frame's opening without the index, or of a result."""
_MIN_PHASE, _MAX_STEPS = 3, 999
_MAX_PHASE = round(LIFE_SECONDS / STEP_SECONDS / 2)
_LOOKED, _LOOK_TOKENS = 0.3, 50
"""Results that are looked up again per step, by models that do it most, and the tokens of such a call; measured
likewise.
"""
_RISKED, _RISKED_CLEARING = 0.03, 0.05
"""Shares of a conversation's cost so far that a useless frame and a useless clearing may cost. The second was chosen on
recordings and generated worlds (decision 37): lower shares save less, higher ones cost short runs up to 1.5 %.
"""
_MIN_READ = 0.001


class Rates(Struct, frozen=True):
    """Prices relative to an input token. The defaults are those of most models."""

    read: float = 0.1
    write: float = 1.25
    hour: float = 2.0
    output: float = 5.0
    standing: float = 0.0  # tokens of the prompt and tools, which every additional request reads; 0 ignores them
    life_seconds: float = LIFE_SECONDS


class FrameAdvice(Struct, frozen=True):
    """The advice that a frame reads."""

    least: int  # work of more steps than this pays off in a frame
    phase: int  # number of steps of the cheapest phase
    step_tokens: float  # tokens that a step adds


def rates(price: Price | None, read: float | None = None) -> Rates:
    """Return the rates of a model with this price. ``read`` overrides the price of a cached token."""
    result = Rates()
    if price is not None and price.input > 0:
        unit = price.input
        result = Rates(
            price.cache_read / unit, price.cache_write_5m / unit, price.cache_write_1h / unit, price.output / unit
        )
    return replace(result, read=max(_MIN_READ, result.read if read is None else read))


def with_pauses(prices: Rates, pauses: int, steps: int) -> Rates:
    """Return the rates if this many of the steps came after the cache entry had expired."""
    share = pauses / steps if steps else 0.0
    return replace(prices, read=prices.read + share * (prices.write - prices.read)) if share else prices


def frame_tokens(prices: Rates, index_tokens: float) -> float:
    """Return K: the cost of a frame in addition to its work."""
    requests = 2 * prices.read * prices.standing  # the push and the pop are requests of their own
    return (
        requests + 2 * _CALL_TOKENS * (prices.output + prices.write) + prices.write * (2 * _TEXT_TOKENS + index_tokens)
    )


def best_steps(prices: Rates, step_tokens: float, index_tokens: float) -> float:
    """Return the cheapest phase for steps of this many tokens, if the parent's cache entry lives long enough."""
    return sqrt(2 * frame_tokens(prices, index_tokens) / (prices.read * max(1.0, step_tokens)))


def phase_steps(prices: Rates, step_tokens: float, index_tokens: float) -> int:
    """Return the phase to recommend."""
    return max(_MIN_PHASE, min(_MAX_PHASE, round(best_steps(prices, step_tokens, index_tokens))))


def looked_tokens(prices: Rates, growth: Collection[int]) -> float:
    """Return L: the cost of looking up a result again, after steps that added these numbers of tokens."""
    result = sqrt(fsum(step * step for step in growth) / len(growth))
    request = prices.read * prices.standing
    return request + prices.output * _LOOK_TOKENS + prices.write * (_LOOK_TOKENS + result)


def least_steps(prices: Rates, history_tokens: float, index_tokens: float, looked: float) -> int:
    """Return the number of steps from which a frame pays off, given the history's tokens. ``looked`` is L."""
    reads = prices.read * history_tokens
    saved = reads - _LOOKED * looked
    if saved <= 0:
        return _MAX_STEPS
    return ceil(min(_MAX_STEPS, (frame_tokens(prices, index_tokens) + 2 * reads) / saved))


def first_advice(prices: Rates, step_tokens: float, index_tokens: float) -> FrameAdvice:
    """Return the advice for a new conversation."""
    phase = phase_steps(prices, step_tokens, index_tokens)
    twice = min(_MAX_STEPS, round(2 * best_steps(prices, step_tokens, index_tokens)))
    return FrameAdvice(max(2 * phase, twice), phase, step_tokens)


def worth_the_risk(prices: Rates, cost: float, index_tokens: float) -> bool:
    """Return whether a conversation that has cost this much, in input tokens, may risk a push that turns out
    useless.
    """
    return frame_tokens(prices, index_tokens) <= _RISKED * cost


def frame_advice(prices: Rates, growth: Iterable[int], index_tokens: float, cleared: int = 0) -> FrameAdvice | None:
    """Return the advice for a conversation whose steps added these numbers of tokens, or None if a phase does not
    pay off. ``cleared`` are tokens that are no longer in it.
    """
    steps = sorted(growth)
    history = sum(steps) - cleared
    if history < 1:
        return None
    short = steps[: -(-len(steps) * 3 // 4)]  # a long file is read once, not in each phase
    usual = fsum(short) / len(short)
    phase = phase_steps(prices, usual, index_tokens)
    least = least_steps(prices, history, index_tokens, looked_tokens(prices, steps))
    return FrameAdvice(least, phase, usual) if least <= phase else None


def hour_pays(prices: Rates, seconds: float, steps: int) -> bool:
    """Return whether the part that all frames share should be cached for an hour. False if the run has no clock.

    An hour costs ``hour - write`` more, once per hour; each pause of over five minutes costs ``write - read``. Pauses
    are assumed to be as random as those between calls.
    """
    if seconds <= 0 or steps < 1:
        return False
    pace = seconds / steps
    pauses = 3_600 / pace * exp(-LIFE_SECONDS / pace)
    return pauses * (prices.write - prices.read) > prices.hour - prices.write


class Clearing(Struct, frozen=True):
    """What clearing old results would change, in tokens."""

    results: int
    freed: int
    follows: int  # after the first cleared result, without what is freed
    prompt: int  # the whole prompt before


def clearing_risked(prices: Rates, clearing: Clearing, cost: float) -> bool:
    """Return whether a conversation that has cost this much, in input tokens, may risk clearing that turns out useless,
    because the run ends soon after it.
    """
    return (prices.write - prices.read) * clearing.follows <= _RISKED_CLEARING * cost


def clearing_pays(
    prices: Rates, clearing: Clearing, requests: int, pauses: int, reread_share: float, *, cold: bool
) -> bool:
    """Return whether clearing saves more than it costs, if as many requests follow as there were.

    ``reread_share`` is the share of the cleared results that are looked up again. ``cold`` says whether the next
    request comes after a pause and writes its whole prompt anyway.
    """
    if not clearing.results:
        return False
    read = with_pauses(prices, pauses + cold, requests).read
    gain = read * clearing.freed * requests
    gain += prices.write * clearing.freed if cold else -(prices.write - prices.read) * clearing.follows
    looked = prices.output * _LOOK_TOKENS + prices.write * (_LOOK_TOKENS + clearing.freed / clearing.results)
    return gain > reread_share * clearing.results * (looked + read * (clearing.prompt - clearing.freed))
