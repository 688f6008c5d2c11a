"""Intervals, tests and verdicts for strategies that were given the same tasks.

Rule 1: a difference is taken within pairs (one task, seed and model under two strategies), never between heaps of runs.
Rule 2: every figure that could have come out otherwise carries an interval, and says so where it has none.
Rule 3: "better" and "worse" are said only where the interval, widened for the number of comparisons, excludes no
        difference and the test agrees; everything else is ``no difference shown``.

Every resampling starts from the same seed: the same rows give the same figures. The formulas are those of scipy.
Source: docs/report.md, which cites them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from stackmem.errors import UsageError

from .intervals import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Interval,
    Pair,
    arrays,
    batch,
    difference,
    library,
    ratio,
    whole_pairs,
)

NONE_SHOWN = "no difference shown"

Wanted = Literal["more", "less"]


class Comparison(Struct, frozen=True):
    """A strategy against the baseline by one figure.

    Attributes:
        difference: Mean of strategy minus baseline over the pairs, with its interval before any correction.
        corrected: The same with the interval widened for the number of comparisons (Holm).
        ratio: Mean of the strategy over mean of the baseline, its interval widened too; None where the baseline's is 0.
        p: By the exact test (McNemar for yes and no, flips of sign for amounts).
        p_corrected: By Holm, over the comparisons made together.
        unpaired: Trials of either that have no partner, and are left out.
    """

    difference: Interval
    corrected: Interval
    ratio: Interval | None
    p: float
    p_corrected: float
    unpaired: int
    verdict: str


def mcnemar(pairs: Sequence[Pair]) -> float:
    """P of the exact test of yes and no in pairs: of those that differ, how many differ one way. 1 where none does."""
    whole = whole_pairs(pairs)
    gained, lost = (sum(1 for pair in whole if pair == kind) for kind in ((1, 0), (0, 1)))
    return float(library().binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def sign_flips(pairs: Sequence[Pair]) -> float:
    """P of the permutation test of amounts in pairs: how often a mean gap this large comes of random signs.

    All signs are tried where there are at most 4,999 ways; 3 pairs can give no less than 0.25, so 3 pairs show nothing.
    """
    gaps = [first - second for first, second in whole_pairs(pairs)]
    if len(gaps) < 2 or not any(gaps):
        return 1.0
    np = arrays()

    found = library().permutation_test(
        (np.array(gaps),),
        np.mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        batch=batch(len(gaps)),
        vectorized=True,
        rng=np.random.default_rng(SEED),
    )
    return float(min(1.0, found.pvalue))


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """P values of comparisons made together, corrected: the chance that any of those called different is not.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    corrected, floor = dict[str, float](), 0.0
    for rank, name in enumerate(sorted(values, key=lambda name: values[name])):
        floor = max(floor, min(1.0, (len(values) - rank) * values[name]))
        corrected[name] = floor
    return {name: corrected[name] for name in values}


def compare(pairs: Mapping[str, Sequence[Pair]], wanted: Wanted, *, yes_no: bool = False) -> dict[str, Comparison]:
    """Each strategy against the baseline, corrected for all of them together; one without a whole pair is left out.

    Args:
        pairs: Strategy to (its figure, the baseline's); a figure that is missing is nan.
        wanted: Whether more of it is better, or less.
        yes_no: The figures are 0 or 1, and the test is McNemar's.
    """
    whole = {name: whole_pairs(found) for name, found in pairs.items() if whole_pairs(found)}
    test = mcnemar if yes_no else sign_flips
    p_values = {name: test(found) for name, found in whole.items()}
    corrected = holm(p_values)
    ranks = {name: rank for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name]))}
    compared = {}
    for name, found in whole.items():
        level = 1 - (1 - CONFIDENCE) / (len(whole) - ranks[name])
        widened = difference(found, level)
        compared[name] = Comparison(
            difference=difference(found),
            corrected=widened,
            ratio=None if yes_no else ratio(found, level),
            p=p_values[name],
            p_corrected=corrected[name],
            unpaired=len(pairs[name]) - len(found),
            verdict=verdict(widened, corrected[name], wanted),
        )
    return compared


def verdict(corrected: Interval, p_corrected: float, wanted: Wanted) -> str:
    """``better`` or ``worse`` where the corrected interval excludes 0 and the corrected test agrees, else neither."""
    low, high = corrected.low, corrected.high
    if low is None or high is None or low <= 0 <= high or p_corrected > 1 - CONFIDENCE:
        return NONE_SHOWN
    return "better" if (low > 0) == (wanted == "more") else "worse"


def smallest_difference(pairs: int, base_rate: float, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest gap between two success rates that this many pairs show with this power; None where none is so.

    It is towards the side with more room, by the exact McNemar test, the two outcomes of a pair taken as independent:
    where they go together, as they do on hard and easy tasks, a smaller gap shows.
    """
    if not 0 <= base_rate <= 1 or pairs < 0:
        raise UsageError(f"{pairs} pairs at a rate of {base_rate} cannot be planned; give a rate from 0 to 1")
    room = max(base_rate, 1 - base_rate)
    towards = -1 if base_rate >= 0.5 else 1
    if _power(pairs, base_rate, base_rate + towards * room, alpha) < power:
        return None
    low, high = 0.0, room
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _power(pairs, base_rate, base_rate + towards * middle, alpha) >= power else (middle, high)
        )
    return high


def _power(pairs: int, rate: float, other: float, alpha: float) -> float:
    """How often the exact McNemar test of this many pairs would tell the two rates apart."""
    np = arrays()

    gained, lost = (1 - rate) * other, rate * (1 - other)
    if pairs == 0 or gained + lost == 0:
        return 0.0
    binom = library().binom
    differing = np.arange(pairs + 1)
    # The most that may differ the rarer way; -1 where even 0 is not rare enough.
    edge = binom.ppf(alpha / 2, differing, 0.5)
    edge = np.where(2 * binom.cdf(edge, differing, 0.5) <= alpha, edge, edge - 1)
    share = gained / (gained + lost)
    told = binom.cdf(edge, differing, share) + binom.sf(differing - edge - 1, differing, share)
    return float(np.sum(binom.pmf(differing, pairs, min(1.0, gained + lost)) * told))
