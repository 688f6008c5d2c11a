"""Tests and verdicts for strategies that ran the same tasks.

Rule 1: differences are taken within a unit (one world under two strategies), never between unpaired sets of runs. Seeds
        of one world are not evidence about other worlds, so the caller sums or averages them first.
Rule 2: every figure with uncertainty has an interval, or says that it has none. Rule 3: "better" and "worse" require
three things: the interval, widened for the number of comparisons, excludes zero
        difference; the exact test agrees; the difference is large enough to matter.
Rule 4: if no outcome could have passed the test, the verdict is ``too few``. Rule 5: a success rate has two verdicts.
        About worlds in general, the unit is a world. About these trials, it is a pair of trials with the same seed,
        and the verdict says nothing about other worlds. Sources: see docs/report.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, log
from statistics import fmean
from typing import Literal

from msgspec import Struct

from stackmem.core.errors import UsageError

from .intervals import (
    CONFIDENCE,
    SEED,
    Interval,
    Pair,
    arrays,
    batch,
    library,
    padded,
    studentized_p,
    whole_pairs,
    wider_interval,
)

NONE_SHOWN = "no difference shown"
TOO_FEW = "too few"
ALIKE = "alike"

AMOUNT_OF_INTEREST = 0.03
"""A ratio closer to 1 than this is neither better nor worse."""
SHARE_OF_INTEREST = 0.05
"""The same threshold for a difference in success rates."""

Direction = Literal["more", "less"]

ALPHA = 1 - CONFIDENCE
"""The chance of any false difference among the comparisons that are made together."""

_POWER = 0.8
_MAX_PAIRS = 1 << 20
_MAX_EXACT_UNITS = 20
"""Up to this many units, all sign assignments are tried (about a million). Above, a sample is drawn."""
_SIGN_SAMPLES = 9_999


class Comparison(Struct, frozen=True):
    """One strategy compared with the baseline by one figure."""

    # The mean difference of shares (for yes/no figures), or the geometric mean of the ratios (for amounts), with the
    # uncorrected interval. Without a reliable interval, its ends are None.
    effect: Interval
    corrected: Interval  # the same effect, with the interval widened for the number of comparisons (Holm)
    p: float  # for yes/no figures, of the exact sign test; for amounts, the larger of sign flips and bootstrap
    p_corrected: float  # corrected by Holm over the comparisons made together
    verdict: str
    gains: int = 0  # units in which the strategy was above the baseline
    lost: int = 0  # units in which it was below


def sign_test(gaps: Sequence[float]) -> float:
    """Return the p of the exact sign test over the units that differ; 1 if none differs.

    For pairs of trials that were solved or not, this is the exact McNemar test.
    """
    gains, lost = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return float(library().binomtest(gains, gains + lost).pvalue) if gains + lost else 1.0


def sign_flips(gaps: Sequence[float]) -> float:
    """Return the p of the permutation test: how often random signs move the mean gap at least as far from 0.

    For a single mean, the wild cluster bootstrap with weights of 1 and -1 is the same test. All signs are tried for up
    to 20 units. Three units cannot give less than 0.25, so they cannot show a difference.
    """
    if len(gaps) < 2 or not any(gaps):
        return 1.0
    np = arrays()
    edge = abs(sum(gaps)) * (1 - 1e-9)
    if len(gaps) <= _MAX_EXACT_UNITS:
        sums = np.array([gaps[0]])  # the other half mirrors this one
        for gap in gaps[1:]:
            sums = np.concatenate((sums + gap, sums - gap))
        return float(np.mean(np.abs(sums) >= edge))
    dice, sizes, far, samples = np.random.default_rng(SEED), batch(len(gaps)), 0, 0
    while samples < _SIGN_SAMPLES:
        signs = dice.choice((-1.0, 1.0), (min(sizes, _SIGN_SAMPLES - samples), len(gaps)))
        far, samples = far + int(np.sum(np.abs(signs @ np.array(gaps)) >= edge)), samples + len(signs)
    return (far + 1) / (samples + 1)


def amounts_test(gaps: Sequence[float]) -> float:
    """Return the larger p of the sign flips and the studentized bootstrap.

    Sign flips are exact if the gaps are symmetric. If they are skewed, equal strategies would too often be called
    different; the studentized bootstrap follows the skew.
    """
    return max(sign_flips(gaps), studentized_p(gaps))


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Return p values corrected for the chance that any of the differences found is false.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    corrected, floor = dict[str, float](), 0.0
    for rank, name in enumerate(sorted(values, key=lambda name: values[name])):
        floor = max(floor, min(1.0, (len(values) - rank) * values[name]))
        corrected[name] = floor
    return {name: corrected[name] for name in values}


def compare(
    pairs: Mapping[str, Sequence[Pair]],
    direction: Direction,
    *,
    yes_no: bool = False,
    least: float | None = None,
    alpha: float = ALPHA,
) -> dict[str, Comparison]:
    """Compare each strategy with the baseline, corrected for all of them.

    Strategies without a complete pair are omitted. ``least`` is the smallest difference that matters, by default
    ``SHARE_OF_INTEREST`` for yes/no figures and ``AMOUNT_OF_INTEREST`` for amounts.

    Args:
        pairs: Strategy to a pair for each unit: its figure and that of the baseline. A missing figure is nan.
        direction: Whether a larger or a smaller figure is better.
        yes_no: The figures are shares from 0 to 1. Otherwise they are amounts, and amounts of 0 are left out.
        alpha: The chance of any false difference. A bench that can stop early has less at each look (``looks.py``).
    """
    gaps = {name: _gaps(unit_pairs, yes_no=yes_no) for name, unit_pairs in pairs.items()}
    gaps = {name: unit_gaps for name, unit_gaps in gaps.items() if unit_gaps}
    test = sign_test if yes_no else amounts_test
    p_values = {name: test(unit_gaps) for name, unit_gaps in gaps.items()}
    corrected = holm(p_values)
    ranks = {name: rank for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name]))}
    compared = {}
    for name, unit_gaps in gaps.items():
        widened = _effect(unit_gaps, 1 - alpha / (len(gaps) - ranks[name]), yes_no=yes_no)
        telling = sum(map(bool, unit_gaps)) if yes_no else len(unit_gaps)
        few = least_p(telling) * len(gaps) > alpha
        compared[name] = Comparison(
            effect=_effect(unit_gaps, 1 - alpha, yes_no=yes_no),
            corrected=widened,
            p=p_values[name],
            p_corrected=corrected[name],
            verdict=TOO_FEW
            if few
            else verdict(widened, corrected[name], direction, yes_no=yes_no, least=least, alpha=alpha),
            gains=sum(gap > 0 for gap in unit_gaps),
            lost=sum(gap < 0 for gap in unit_gaps),
        )
    return compared


def least_p(units: int) -> float:
    """Return the smallest p that either test can give with this many differing units."""
    return min(1.0, 2.0 ** (1 - units))


def _gaps(pairs: Sequence[Pair], *, yes_no: bool) -> list[float]:
    """Return the gap in each unit: the difference of shares, or the logarithm of the ratio of amounts."""
    complete = whole_pairs(pairs)
    if yes_no:
        return [first - second for first, second in complete]
    return [log(first / second) for first, second in complete if first > 0 < second]


def _effect(gaps: Sequence[float], confidence: float, *, yes_no: bool) -> Interval:
    middle = fmean(gaps)
    if yes_no:
        few = least_p(sum(map(bool, gaps))) > ALPHA
        return Interval(middle, None, None, len(gaps)) if few else padded(gaps, (-1.0, 1.0), confidence)
    if len(gaps) < 2:
        return Interval(exp(middle), None, None, len(gaps))
    low, high = wider_interval(gaps, confidence)
    return Interval(exp(middle), exp(low), exp(high) if high < 700 else inf, len(gaps))


def verdict(
    corrected: Interval,
    p_corrected: float,
    direction: Direction,
    *,
    yes_no: bool = False,
    least: float | None = None,
    alpha: float = ALPHA,
) -> str:
    """Apply rule 3. The verdict is ``alike`` if the interval contains only differences too small to matter."""
    low, high = corrected.low, corrected.high
    if low is None or high is None:
        return TOO_FEW
    small, big = _negligible(SHARE_OF_INTEREST if yes_no else AMOUNT_OF_INTEREST, yes_no=yes_no)
    none = 0.0 if yes_no else 1.0
    if small < low and high < big:
        return ALIKE
    if least is not None:
        small, big = _negligible(least, yes_no=yes_no)
    if low <= none <= high or small < corrected.value < big or p_corrected > alpha:
        return NONE_SHOWN
    return "better" if (low > none) == (direction == "more") else "worse"


def _negligible(least: float, *, yes_no: bool) -> Pair:
    """Return the open range of differences that do not matter."""
    return (-least, least) if yes_no else (1 / (1 + least), 1 + least)


def pairs_to_find(gap: float, base_rate: float, comparisons: int = 1, alpha: float = ALPHA) -> int | None:
    """Return how many paired trials find a gap of two success rates with power 0.8, or None if a million do not.

    The gap is towards the side with more room, and the outcomes of a pair are taken as independent. Trials with the
    same seed mostly correlate, so fewer can be enough.
    """
    if not 0 <= base_rate <= 1 or not 0 < gap <= max(base_rate, 1 - base_rate):
        raise UsageError(f"a gap of {gap} at a rate of {base_rate} cannot be planned; give a gap that fits the rate")
    other = base_rate - gap if base_rate >= 0.5 else base_rate + gap
    alpha = alpha / max(1, comparisons)
    low, high = 1, 2
    while _power(high, base_rate, other, alpha) < _POWER:
        low, high = high, high * 2
        if high > _MAX_PAIRS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, base_rate, other, alpha) >= _POWER else (middle, high)
    return high


def smallest_difference(units: int, base_rate: float, comparisons: int = 1, alpha: float = ALPHA) -> float | None:
    """Return the smallest gap of two success rates that this many units show with power 0.8, or None.

    The gap is towards the side with more room. The test is the exact sign test at the first level of Holm's correction,
    with independent outcomes within a unit. If the outcomes correlate, as they do on easy and hard tasks, smaller gaps
    can be shown. Extra seeds of a unit do not help here, as if all of them had the same outcome.
    """
    if not 0 <= base_rate <= 1 or units < 0:
        raise UsageError(f"{units} units at a rate of {base_rate} cannot be planned; give a rate from 0 to 1")
    alpha = alpha / max(1, comparisons)
    room = max(base_rate, 1 - base_rate)
    towards = -1 if base_rate >= 0.5 else 1
    if _power(units, base_rate, base_rate + towards * room, alpha) < _POWER:
        return None
    low, high = 0.0, room
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _power(units, base_rate, base_rate + towards * middle, alpha) >= _POWER else (middle, high)
        )
    return high


def _power(units: int, rate: float, other: float, alpha: float) -> float:
    """Return how often the exact sign test with this many units would distinguish the two rates."""
    np = arrays()

    gains, lost = (1 - rate) * other, rate * (1 - other)
    if units == 0 or gains + lost == 0:
        return 0.0
    binom = library().binom
    differing = np.arange(units + 1)
    # The highest count of the rarer direction that is still significant; -1 if not even 0 is.
    edge = binom.ppf(alpha / 2, differing, 0.5)
    edge = np.where(2 * binom.cdf(edge, differing, 0.5) <= alpha, edge, edge - 1)
    share = gains / (gains + lost)
    detected = binom.cdf(edge, differing, share) + binom.sf(differing - edge - 1, differing, share)
    return float(np.sum(binom.pmf(differing, units, min(1.0, gains + lost)) * detected))
