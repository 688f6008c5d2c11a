"""Figures with their intervals, by the formulas of scipy.

Every resampling starts from the same seed: the same rows give the same intervals. Source: docs/report.md, which cites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb, inf, isfinite, log
from typing import Any

from msgspec import Struct

from stackmem.errors import UsageError

CONFIDENCE = 0.95
RESAMPLES = 4_999
SEED = 20_261_120
_ENDLESS = 1e300  # a ratio to nothing; percentiles between two infinities would be no number

_MANY = 1_000
_HELD = 1_000_000

Pair = tuple[float, float]


class Interval(Struct, frozen=True):
    """A figure and how far it can be trusted.

    Attributes:
        low, high: Ends of the interval; both None where the sample is too small for one; ``inf`` where it is open.
        count: Trials, pairs or tasks it rests on.
    """

    value: float
    low: float | None
    high: float | None
    count: int


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval | None:
    """The share of successes; None without trials. It holds for few trials and for none or all successes too."""
    if trials == 0:
        return None
    found = library().binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Interval(successes / trials, float(found.low), float(found.high), trials)


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The mean of the finite values with a bootstrap interval; None without any."""
    kept = [value for value in values if isfinite(value)]
    if not kept:
        return None
    return _bootstrap((kept,), _mean, confidence)


def difference(pairs: Sequence[Pair], confidence: float = CONFIDENCE) -> Interval:
    """Mean of first minus second over the pairs that are whole.

    Raises:
        UsageError: No pair is whole.
    """
    gaps = [first - second for first, second in whole_pairs(pairs)]
    if not gaps:
        raise UsageError("no trial of the one has a partner among the other; compare what was given the same tasks")
    return _bootstrap((gaps,), _mean, confidence)


def ratio(pairs: Sequence[Pair], confidence: float = CONFIDENCE) -> Interval | None:
    """Mean of the first over mean of the second, pairs resampled whole; None where the second's mean is 0."""
    whole = whole_pairs(pairs)
    if not whole or sum(second for _, second in whole) == 0:
        return None
    firsts, seconds = zip(*whole, strict=True)
    return _bootstrap((firsts, seconds), _ratio_of_means, confidence)


def cost_per_solved(trials: Sequence[Pair]) -> Interval | None:
    """What all trials cost over how many were solved; (cost, 1 or 0) for each. None where none was solved.

    The high end is ``inf`` where a sample like this one could have solved none.
    """
    return ratio(trials)


def pass_at_k(tasks: Sequence[Sequence[bool]], k: int) -> Interval | None:
    """The chance that at least one of k trials of a task solves it, over the tasks; None where none has k trials.

    Source: Chen et al., Evaluating large language models trained on code, 2021: 1 - C(n-c, k) / C(n, k).
    """
    return _over_tasks(tasks, k, lambda count, solved: 1 - comb(count - solved, k) / comb(count, k))


def pass_hat_k(tasks: Sequence[Sequence[bool]], k: int) -> Interval | None:
    """The chance that each of k trials of a task solves it (pass^k), over the tasks; None where none has k trials.

    Source: Yao et al., tau-bench, 2024: C(c, k) / C(n, k).
    """
    return _over_tasks(tasks, k, lambda count, solved: comb(solved, k) / comb(count, k))


def power_law(points: Sequence[Pair]) -> Interval | None:
    """The exponent b of y = a x^b, least squares on logarithms; None without two different x above 0.

    Points with an x or y of 0 or less have no logarithm and are left out. Three points at least carry an interval.
    """
    kept = [(log(x), log(y)) for x, y in whole_pairs(points) if x > 0 and y > 0]
    if len({x for x, _ in kept}) < 2:
        return None
    fit = library().linregress(*zip(*kept, strict=True))
    if len(kept) < 3:
        return Interval(float(fit.slope), None, None, len(kept))
    reach = float(library().t.ppf((1 + CONFIDENCE) / 2, len(kept) - 2) * fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - reach, float(fit.slope) + reach, len(kept))


def _over_tasks(tasks: Sequence[Sequence[bool]], k: int, chance: Callable[[int, int], float]) -> Interval | None:
    chances = [chance(len(trials), sum(trials)) for trials in tasks if len(trials) >= k > 0]
    return _bootstrap((chances,), _mean, CONFIDENCE) if chances else None


def whole_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if isfinite(pair[0]) and isfinite(pair[1])]


def _mean(values: Any, axis: int = -1) -> Any:
    return values.mean(axis=axis)


def _ratio_of_means(firsts: Any, seconds: Any, axis: int = -1) -> Any:
    np = arrays()

    over = seconds.mean(axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(over == 0, _ENDLESS, firsts.mean(axis=axis) / over)


def _bootstrap(samples: tuple[Sequence[float], ...], statistic: Callable[..., Any], confidence: float) -> Interval:
    """BCa (Efron 1987), percentiles where that has no answer; a sample of one has no interval."""
    np = arrays()

    columns = tuple(np.asarray(sample, dtype=float) for sample in samples)
    value, count = float(statistic(*columns)), len(columns[0])
    if count < 2:
        return Interval(value, None, None, count)
    if all(np.ptp(column) == 0 for column in columns):
        return Interval(value, value, value, count)
    # BCa looks at the sample without each of its values in turn; of a thousand values that changes nothing any more.
    for method in ("BCa", "percentile") if count <= _MANY else ("percentile",):
        low, high = _resampled(columns, statistic, confidence, method)
        if low <= value <= high:
            break
    return Interval(value, _open(low), _open(high), count)


def _open(end: float) -> float:
    return inf if end >= _ENDLESS / 1e6 else end


def batch(count: int) -> int:
    """How many resamples of so many values are held at once: 8 MB of them."""
    return max(1, _HELD // count)


def _resampled(columns: tuple[Any, ...], statistic: Callable[..., Any], confidence: float, method: str) -> Pair:
    import warnings

    np = arrays()

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # that BCa has no answer is seen by its nan, and answered with percentiles
        found = (
            library()
            .bootstrap(
                columns,
                statistic,
                paired=True,
                vectorized=True,
                n_resamples=RESAMPLES,
                batch=batch(len(columns[0])),
                confidence_level=confidence,
                method=method,
                rng=np.random.default_rng(SEED),
            )
            .confidence_interval
        )
    return float(found.low), float(found.high)


def arrays() -> Any:
    """Numpy, which comes with the library of the statistics."""
    library()
    import numpy as np

    return np


def library() -> Any:
    """The library of the statistics; it is large, and only they need it."""
    try:
        from scipy import stats  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("statistics need scipy; pip install 'stackmem[bench]' brings it") from error
    return stats
