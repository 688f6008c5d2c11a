"""Figures with their intervals.

A value is one unit's: that of a world where several are pooled, its trials averaged before, else of a trial. Every
resampling starts from the same seed: the same rows give the same intervals. Source: docs/report.md, which cites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import comb, inf, isfinite, log, sqrt
from statistics import fmean, stdev
from typing import Any

from msgspec import Struct

from stackmem.errors import UsageError

CONFIDENCE = 0.95
RESAMPLES = 4_999
SEED = 20_261_120
_ENDLESS = 1e300  # a ratio to nothing; percentiles between two infinities would be no number

_STUDENTIZED = 8
"""Fewer values than these give resamples with next to no spread."""

_MANY = 1_000
_HELD = 1_000_000

Pair = tuple[float, float]


class Interval(Struct, frozen=True):
    """A figure and how far it can be trusted.

    Attributes:
        low, high: Ends of the interval; both None where the sample is too small for one; ``inf`` where it is open.
        count: Units it rests on: worlds, or trials where there is one world.
    """

    value: float
    low: float | None
    high: float | None
    count: int


def share(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The mean of shares from 0 to 1; None without any.

    The interval is that of t over the units with one more of 0 and one more of 1, so it is honest where all are alike.
    """
    kept = [value for value in values if isfinite(value)]
    return padded(kept, (0.0, 1.0), confidence) if kept else None


def padded(values: Sequence[float], ends: Pair, confidence: float = CONFIDENCE) -> Interval:
    """The mean of values between two ends; its interval that of t with one more value at each end."""
    low, high = t_interval([*values, *ends], confidence)
    return Interval(fmean(values), max(ends[0], low), min(ends[1], high), len(values))


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The mean of the finite values; None without any.

    The interval is the wider at each end of t and the studentized bootstrap, and never below 0 where no value is.
    """
    kept = [value for value in values if isfinite(value)]
    if len(kept) < 2 or min(kept) == max(kept):
        return _alike(kept[0], len(kept)) if kept else None
    low, high = t_interval(kept, confidence)
    if len(kept) >= _STUDENTIZED:
        lower, higher = _studentized(kept, confidence)
        low, high = min(low, lower), max(high, higher)
    return Interval(fmean(kept), max(0.0, low) if min(kept) >= 0 else low, high, len(kept))


def _alike(value: float, count: int) -> Interval:
    return Interval(value, None, None, 1) if count == 1 else Interval(value, value, value, count)


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Pair:
    """The ends of the interval of the mean of two values or more, were they drawn from a normal distribution."""
    middle = fmean(values)
    reach = t_quantile(confidence, len(values) - 1) * stdev(values) / sqrt(len(values))
    return middle - reach, middle + reach


@lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: int) -> float:
    return float(library().t.ppf((1 + confidence) / 2, degrees))


def _studentized(values: Sequence[float], confidence: float) -> Pair:
    """Each resample's distance from the mean in its own standard errors, turned round (Efron and Tibshirani 1993)."""
    np = arrays()
    sample, count = np.asarray(values, dtype=float), len(values)
    middle, error = sample.mean(), sample.std(ddof=1) / sqrt(count)
    dice, far = np.random.default_rng(SEED), []
    for size in _batches(count):
        drawn = sample[dice.integers(0, count, (size, count))]
        errors = drawn.std(axis=1, ddof=1) / sqrt(count)
        kept = errors > 0  # one in which a single value was drawn each time has none
        far.append((drawn.mean(axis=1)[kept] - middle) / errors[kept])
    low, high = np.quantile(np.concatenate(far), ((1 - confidence) / 2, (1 + confidence) / 2))
    return float(middle - high * error), float(middle - low * error)


def _batches(count: int) -> list[int]:
    """Resamples of so many values, in as many steps as keep 8 MB at once."""
    most = batch(count)
    return [min(most, RESAMPLES - start) for start in range(0, RESAMPLES, most)]


def ratio(pairs: Sequence[Pair], confidence: float = CONFIDENCE) -> Interval | None:
    """Sum of the first over sum of the second, units resampled whole; None where the second's is 0."""
    whole = whole_pairs(pairs)
    if not whole or sum(second for _, second in whole) == 0:
        return None
    firsts, seconds = zip(*whole, strict=True)
    return _bootstrap((firsts, seconds), _ratio_of_means, confidence)


def cost_per_solved(units: Sequence[Pair]) -> Interval | None:
    """What all trials cost over how many were solved, both of each unit; None where none was solved.

    The high end is ``inf`` where a sample like this one could have solved none.
    """
    return ratio(units)


def pass_at_k(tasks: Mapping[str, Sequence[Sequence[bool]]], k: int) -> Interval | None:
    """The chance that at least one of k trials of a task solves it; None where no task has k trials.

    Args:
        tasks: Name of a world to the trials of each of its tasks.

    Source: Chen et al., Evaluating large language models trained on code, 2021: 1 - C(n-c, k) / C(n, k).
    """
    return _over_tasks(tasks, k, lambda count, solved: 1 - comb(count - solved, k) / comb(count, k))


def pass_hat_k(tasks: Mapping[str, Sequence[Sequence[bool]]], k: int) -> Interval | None:
    """The chance that each of k trials of a task solves it (pass^k), as ``pass_at_k``.

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
    reach = t_quantile(CONFIDENCE, len(kept) - 2) * float(fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - reach, float(fit.slope) + reach, len(kept))


def _over_tasks(
    tasks: Mapping[str, Sequence[Sequence[bool]]], k: int, chance: Callable[[int, int], float]
) -> Interval | None:
    chances = [[chance(len(trials), sum(trials)) for trials in mine if len(trials) >= k > 0] for mine in tasks.values()]
    return share([fmean(mine) for mine in chances if mine])


def whole_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if isfinite(pair[0]) and isfinite(pair[1])]


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
