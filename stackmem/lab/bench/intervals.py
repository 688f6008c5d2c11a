"""Figures with confidence intervals.

A value belongs to one unit. If several worlds are pooled, the unit is a world with its trials averaged; otherwise it is
a trial. All resampling uses one fixed seed, so the same rows give the same intervals. Sources: see docs/report.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import cbrt, comb, inf, isfinite, log, sqrt
from statistics import fmean, stdev
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.foreign.installing import install_command

CONFIDENCE = 0.95
RESAMPLES = 4_999
SEED = 20_261_120
_MIN_FOR_BOOTSTRAP = 8
"""With fewer values than this, resamples have almost no spread."""
_MIN_FOR_TRANSFORMATION = 15
"""With fewer values, the skew of a resample is so uncertain that the interval would be useless."""
_LARGE_SAMPLE = 1_000  # from this size on, the mean is close enough to normal
_VALUES_PER_BATCH = 1_000_000

Pair = tuple[float, float]


class Interval(Struct, frozen=True):
    """A figure with its confidence interval."""

    value: float
    # low, high: ends of the interval. Both are None if the sample is too small; ``inf`` means an open end.
    low: float | None
    high: float | None
    count: int  # number of units: worlds, or trials if there is only one world


def share(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the mean of shares between 0 and 1, or None without any.

    The interval is the t interval over the values plus one 0 and one 1, so that it stays honest if all values are
    equal.
    """
    finite = [value for value in values if isfinite(value)]
    return padded(finite, (0.0, 1.0), confidence) if finite else None


def padded(values: Sequence[float], ends: Pair, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of bounded values, with the t interval over the values plus one value at each bound."""
    low, high = t_interval([*values, *ends], confidence)
    return Interval(fmean(values), max(ends[0], low), min(ends[1], high), len(values))


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the mean of the finite values, or None without any.

    Each end of the interval is the wider one of t and the studentized bootstrap. It never goes below 0 unless a value
    does.
    """
    finite = [value for value in values if isfinite(value)]
    if len(finite) < 2 or min(finite) == max(finite):
        return _alike(finite[0], len(finite)) if finite else None
    low, high = wider_interval(finite, confidence)
    return Interval(fmean(finite), max(0.0, low) if min(finite) >= 0 else low, high, len(finite))


def _alike(value: float, count: int) -> Interval:
    return Interval(value, None, None, 1) if count == 1 else Interval(value, value, value, count)


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Pair:
    """Return the t interval of the mean of two or more values, assuming a normal distribution."""
    middle = fmean(values)
    reach = t_quantile(confidence, len(values) - 1) * stdev(values) / sqrt(len(values))
    return middle - reach, middle + reach


@lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: int) -> float:
    return float(library().t.ppf((1 + confidence) / 2, degrees))


def wider_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Pair:
    """Return the interval of the mean of two or more values: at each end the widest of t and two bootstraps.

    The t interval assumes a normal distribution. The studentized bootstrap (Efron and Tibshirani 1993) follows the
    skew of the values. With Hall's transformation (1992) it also follows how the skew changes between samples.
    """
    low, high = t_interval(values, confidence)
    if len(values) < _MIN_FOR_BOOTSTRAP or min(values) == max(values):
        return low, high
    np = arrays()
    resamples, ends = _studentized(tuple(values)), ((1 - confidence) / 2, (1 + confidence) / 2)
    least, most = np.quantile(resamples.distances, ends)
    if len(values) < _MIN_FOR_TRANSFORMATION:
        return min(low, resamples.middle - float(most) * resamples.error), max(
            high, resamples.middle - float(least) * resamples.error
        )
    lowest, highest = (
        halls_distance(float(end), resamples.skew, resamples.count) for end in np.quantile(resamples.transformed, ends)
    )
    reach_down, reach_up = max(float(most), highest), min(float(least), lowest)
    return min(low, resamples.middle - reach_down * resamples.error), max(
        high, resamples.middle - reach_up * resamples.error
    )


def studentized_p(values: Sequence[float]) -> float:
    """Return the p of the hypothesis that the mean is 0: the larger one of the two bootstraps, or 0 with few values.

    It inverts the interval of ``wider_interval``. The caller combines it with a test that works for few values.
    """
    if len(values) < _MIN_FOR_BOOTSTRAP or min(values) == max(values):
        return 0.0
    resamples = _studentized(tuple(values))
    at = resamples.middle / resamples.error
    plain = _two_sided(at, resamples.distances)
    if len(values) < _MIN_FOR_TRANSFORMATION:
        return plain
    return max(plain, _two_sided(halls_transformation(at, resamples.skew, resamples.count), resamples.transformed))


def _two_sided(at: float, distances: Any) -> float:
    np = arrays()
    rarer = min(int(np.sum(distances >= at)), int(np.sum(distances <= at)))
    return min(1.0, 2 * (rarer + 1) / (len(distances) + 1))


class _Studentized(Struct, frozen=True):
    """Resampled means, as distances from the mean of the sample."""

    middle: float
    error: float  # the standard error of the mean
    skew: float
    count: int
    distances: Any  # each one divided by the standard error of its resample
    transformed: Any  # the distances after Hall's transformation, with the skew of each resample


def halls_transformation(distance: Any, skew: Any, count: int) -> Any:
    """Return a mean's distance in standard errors, transformed so that its distribution is nearly free of the skew.

    Source: Hall, On the removal of skewness by transformation, 1992.
    """
    scaled = distance / sqrt(count)
    cubic = scaled + skew * scaled**2 / 3 + skew**2 * scaled**3 / 27
    return cubic * sqrt(count) + skew / (6 * sqrt(count))


def halls_distance(transformed: float, skew: float, count: int) -> float:
    """Return the distance in standard errors that ``halls_transformation`` maps there."""
    scaled = (transformed - skew / (6 * sqrt(count))) / sqrt(count)
    if abs(skew) < 1e-6:
        return scaled * sqrt(count)
    return 3 / skew * (cbrt(1 + skew * scaled) - 1) * sqrt(count)


@lru_cache(maxsize=64)
def _studentized(values: tuple[float, ...]) -> _Studentized:
    """Draw the resamples of both bootstraps."""
    np = arrays()
    sample, count = np.asarray(values, dtype=float), len(values)
    middle, error = float(sample.mean()), float(sample.std(ddof=1)) / sqrt(count)
    dice, far, skews = np.random.default_rng(SEED), [], []
    for size in _batches(count):
        samples = sample[dice.integers(0, count, (size, count))]
        errors = samples.std(axis=1, ddof=1) / sqrt(count)
        usable = errors > 0  # a resample that drew the same value every time has no standard error
        means, deviations = samples.mean(axis=1), samples.std(axis=1)
        third = ((samples - means[:, None]) ** 3).mean(axis=1)
        far.append((means[usable] - middle) / errors[usable])
        skews.append(third[usable] / deviations[usable] ** 3)
    distances, skew = np.concatenate(far), float(((sample - middle) ** 3).mean() / sample.std() ** 3)
    transformed = halls_transformation(distances, np.concatenate(skews), count)
    return _Studentized(middle, error, skew, count, distances, transformed)


def _batches(count: int) -> list[int]:
    """Split the resamples into batches that need at most 8 MB each."""
    most = batch(count)
    return [min(most, RESAMPLES - start) for start in range(0, RESAMPLES, most)]


def ratio(pairs: Sequence[Pair], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the sum of the first values over the sum of the second, or None if the second sum is 0.

    Each end of the interval is the wider one of t and the studentized bootstrap. Both work on the logarithm with the
    jackknife standard error, because sums over few units of different size are skewed. If all but one of the second
    values are 0, or of the first, the interval is taken on the plain ratio, and the upper end can be ``inf``.
    """
    np = arrays()
    complete = np.array(whole_pairs(pairs), dtype=float).reshape(-1, 2)
    numerators, denominators = complete[:, 0], complete[:, 1]
    if not len(complete) or denominators.sum() == 0:
        return None
    value, count = float(numerators.sum() / denominators.sum()), len(complete)
    if count < 2:
        return Interval(value, None, None, count)
    scales = (np.log, np.exp), (np.asarray, np.asarray), (np.reciprocal, _reciprocal)
    for there, back in scales:
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = _of_ratio(numerators, denominators, there, confidence)
        if isfinite(low) and isfinite(high):
            ends = sorted((float(back(low)), float(back(high))))
            return Interval(value, max(0.0, ends[0]) if min(numerators) >= 0 else ends[0], ends[1], count)
    return Interval(value, 0.0, inf, count)


def _of_ratio(numerators: Any, denominators: Any, scale: Callable[[Any], Any], confidence: float) -> Pair:
    """Return the interval on the given scale. It is not finite if leaving out a unit makes the ratio undefined."""
    np, count = arrays(), len(numerators)
    middle, error = (
        float(scale(numerators.sum() / denominators.sum())),
        float(_jackknife(numerators, denominators, scale)),
    )
    if not isfinite(error) or error == 0:
        return (middle, middle) if error == 0 else (inf, inf)
    reach = t_quantile(confidence, count - 1) * error
    low, high = middle - reach, middle + reach
    if not _MIN_FOR_BOOTSTRAP <= count <= _LARGE_SAMPLE:
        return low, high
    dice, far = np.random.default_rng(SEED), []
    for size in _batches(count):
        indices = dice.integers(0, count, (size, count))
        errors = _jackknife(numerators[indices], denominators[indices], scale)
        far.append((scale(numerators[indices].sum(axis=1) / denominators[indices].sum(axis=1)) - middle) / errors)
    distances = np.concatenate(far)
    lower, higher = np.quantile(distances[np.isfinite(distances)], ((1 - confidence) / 2, (1 + confidence) / 2))
    return min(low, middle - float(higher) * error), max(high, middle - float(lower) * error)


def _jackknife(numerators: Any, denominators: Any, scale: Callable[[Any], Any]) -> Any:
    """Return the jackknife standard error of a ratio of sums on a scale, along the last axis."""
    without_one = scale(
        (numerators.sum(axis=-1, keepdims=True) - numerators)
        / (denominators.sum(axis=-1, keepdims=True) - denominators)
    )
    return without_one.std(axis=-1) * sqrt(numerators.shape[-1] - 1)


def _reciprocal(value: float) -> float:
    return 1 / value if value > 0 else inf


def cost_per_solved(units: Sequence[Pair]) -> Interval | None:
    """Return the cost of all trials over the number solved, or None if no trial was solved.

    The upper end is ``inf`` if a similar sample could have solved none.
    """
    return ratio(units)


def pass_at_k(tasks: Mapping[str, Sequence[Sequence[bool]]], k: int) -> Interval | None:
    """Return the probability that at least one of k trials of a task solves it; None if no task has k trials.

    Source: Chen et al., Evaluating large language models trained on code, 2021: 1 - C(n-c, k) / C(n, k).
    """
    return _over_tasks(tasks, k, lambda count, solved: 1 - comb(count - solved, k) / comb(count, k))


def pass_hat_k(tasks: Mapping[str, Sequence[Sequence[bool]]], k: int) -> Interval | None:
    """Return the probability that all k trials of a task solve it (pass^k); None if no task has k trials.

    Source: Yao et al., tau-bench, 2024: C(c, k) / C(n, k).
    """
    return _over_tasks(tasks, k, lambda count, solved: comb(solved, k) / comb(count, k))


def power_law(points: Sequence[Pair]) -> Interval | None:
    """Return the exponent b of y = a x^b by least squares on logarithms; None without two different positive x.

    Points with an x or y of 0 or less are excluded. An interval needs at least three points.
    """
    logarithms = [(log(x), log(y)) for x, y in whole_pairs(points) if x > 0 and y > 0]
    if len({x for x, _ in logarithms}) < 2:
        return None
    fit = library().linregress(*zip(*logarithms, strict=True))
    if len(logarithms) < 3:
        return Interval(float(fit.slope), None, None, len(logarithms))
    reach = t_quantile(CONFIDENCE, len(logarithms) - 2) * float(fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - reach, float(fit.slope) + reach, len(logarithms))


def _over_tasks(
    tasks: Mapping[str, Sequence[Sequence[bool]]], k: int, chance: Callable[[int, int], float]
) -> Interval | None:
    chances = [[chance(len(trials), sum(trials)) for trials in runs if len(trials) >= k > 0] for runs in tasks.values()]
    return share([fmean(runs) for runs in chances if runs])


def whole_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if isfinite(pair[0]) and isfinite(pair[1])]


def batch(count: int) -> int:
    """Return how many resamples of this size fit into 8 MB."""
    return max(1, _VALUES_PER_BATCH // count)


def arrays() -> Any:
    """Return numpy, which is installed with the statistics library."""
    library()
    import numpy as np

    return np


def library() -> Any:
    """Return the statistics library. It is imported lazily because it is large."""
    try:
        from scipy import stats  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError(f"statistics need the extra 'bench'; install it: {install_command('bench')}") from error
    return stats
