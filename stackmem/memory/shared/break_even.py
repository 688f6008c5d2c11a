"""When a frame pays: the prices of a run and the lengths of a conversation in, steps out.

Amounts are in tokens, prices in those of a token of input. With *r* the price of a token read from the cache, *w* of
one written to it and *o* of one of output:

1. n more steps in a conversation of H tokens read H n times: that costs ``r H n``.
2. A frame for them costs K beyond its work: two replies, one that pushes and one that pops, at ``o + w``; its opening
   with the index, and its result, at ``w``. The step that pushes and the one after the pop read H all the same.
3. A frame does not see H, and looks for results of it again: up to three times in ten steps, at L each, a call at
   ``o + w`` and a result at ``w``. A long result tells more of what is used later. So its length is taken between the
   mean step and the step of the mean token: the root mean square of the steps.
4. So a frame for the next n steps pays where ``r H (n - 2) > K + 0.3 n L``, if H is still in the cache when it ends.
5. Steps of g tokens each, in frames of n, cost ``K / n + r g n / 2 + 0.3 L`` a step beyond what they write. That is
   least at ``n = sqrt(2 K / (r g))``: the phase.
6. Two frames cost less than one conversation of both where ``2 K + r g n² < 2 r g n²``, n steps in each: with 4, where
   each is a phase. So work of more than two phases pays in frames from its start, when nothing lies behind it.
7. A parent of m phases reads its own pushes and results as often: more than two phases of phases are better in groups.
8. A phase ends while its parent's entry lives: at most half of that time, which leaves room for handing over.
9. Nothing knows how much work is left. A frame in which the run ends at once costs K. So a conversation is advised to
   push once K is a small share of what it has cost so far, and a whole phase pays.

Source: docs/strategies.md, When a frame pays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import ceil, exp, sqrt
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.pricing import Price

LIFE_SECONDS = 300.0
"""How long an entry of the cache lives where no hour is paid for."""
STEP_SECONDS = 10.0
"""From one request to the next, as bills are made."""
_CALL_TOKENS = 150
"""Of a reply that pushes or pops, with what it tells and stores; both as measured on recordings cut into frames."""
_TEXT_TOKENS = 400
"""Of a frame's opening beside the index, or of a result."""
_LEAST_PHASE, _MOST_STEPS = 3, 999
_MOST_PHASE = round(LIFE_SECONDS / STEP_SECONDS / 2)
_LOOKED, _LOOK_TOKENS = 0.3, 50
"""Results looked for again a step, by models that look most, and the tokens of such a call; measured likewise."""
_RISKED = 0.03
"""Share of what a conversation has cost so far that a useless frame may cost."""
_LEAST_READ = 0.001


class Rates(Struct, frozen=True):
    """Prices of a token; those here are of most models."""

    read: float = 0.1
    write: float = 1.25
    hour: float = 2.0
    output: float = 5.0


class FrameAdvice(Struct, frozen=True):
    """What a frame is told."""

    least: int  # work of more steps than these pays in a frame
    phase: int  # steps of the phase that costs least
    step_tokens: float  # what a step brings


def rates(price: Price | None, read: float | None = None) -> Rates:
    """Of a model with this price; ``read`` goes over it."""
    known = Rates()
    if price is not None and price.input > 0:
        one = price.input
        known = Rates(
            price.cache_read / one, price.cache_write_5m / one, price.cache_write_1h / one, price.output / one
        )
    return replace(known, read=max(_LEAST_READ, known.read if read is None else read))


def frame_tokens(prices: Rates, index_tokens: float) -> float:
    """K: what a frame costs beyond its work."""
    return 2 * _CALL_TOKENS * (prices.output + prices.write) + prices.write * (2 * _TEXT_TOKENS + index_tokens)


def best_steps(prices: Rates, step_tokens: float, index_tokens: float) -> float:
    """The phase that costs least, where each step brings so many tokens and the parent's entry lives long enough."""
    return sqrt(2 * frame_tokens(prices, index_tokens) / (prices.read * max(1.0, step_tokens)))


def phase_steps(prices: Rates, step_tokens: float, index_tokens: float) -> int:
    """The phase to advise."""
    return max(_LEAST_PHASE, min(_MOST_PHASE, round(best_steps(prices, step_tokens, index_tokens))))


def looked_tokens(prices: Rates, growth: Collection[int]) -> float:
    """L: what it costs to look for a result again, after steps that brought so many tokens each."""
    result = sqrt(fmean(step * step for step in growth))
    return prices.output * _LOOK_TOKENS + prices.write * (_LOOK_TOKENS + result)


def least_steps(prices: Rates, history_tokens: float, index_tokens: float, looked: float) -> int:
    """So many steps pay in a frame, beside a conversation of so many tokens; ``looked`` is L."""
    reads = prices.read * history_tokens
    saved = reads - _LOOKED * looked
    if saved <= 0:
        return _MOST_STEPS
    return ceil(min(_MOST_STEPS, (frame_tokens(prices, index_tokens) + 2 * reads) / saved))


def first_advice(prices: Rates, step_tokens: float, index_tokens: float) -> FrameAdvice:
    """For a conversation that begins."""
    phase = phase_steps(prices, step_tokens, index_tokens)
    twice = min(_MOST_STEPS, round(2 * best_steps(prices, step_tokens, index_tokens)))
    return FrameAdvice(max(2 * phase, twice), phase, step_tokens)


def worth_the_risk(prices: Rates, cost: float, index_tokens: float) -> bool:
    """Whether a conversation that has cost so much, in tokens of input, may push what turns out to be useless."""
    return frame_tokens(prices, index_tokens) <= _RISKED * cost


def frame_advice(prices: Rates, growth: Iterable[int], index_tokens: float) -> FrameAdvice | None:
    """For a conversation whose steps brought so many tokens each; None where a phase in a frame does not pay."""
    steps = sorted(growth)
    history = sum(steps)
    if history < 1:
        return None
    usual = fmean(steps[: -(-len(steps) * 3 // 4)])  # a long file is read once, and not in each phase
    phase = phase_steps(prices, usual, index_tokens)
    least = least_steps(prices, history, index_tokens, looked_tokens(prices, steps))
    return FrameAdvice(least, phase, usual) if least <= phase else None


def hour_pays(prices: Rates, seconds: float, steps: int) -> bool:
    """Whether what all frames share should live in the cache for an hour; not where the run has no clock.

    An hour costs ``hour - write`` more, once in it; each pause of over five minutes costs ``write - read``. Pauses are
    taken to be as random as those between calls.
    """
    if seconds <= 0 or steps < 1:
        return False
    pace = seconds / steps
    pauses = 3_600 / pace * exp(-LIFE_SECONDS / pace)
    return pauses * (prices.write - prices.read) > prices.hour - prices.write
