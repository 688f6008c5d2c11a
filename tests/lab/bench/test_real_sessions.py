"""Intervals and verdicts hold for samples drawn again from the bills of real sessions.

``session_bills.csv`` has the bills of the first sessions of a study of public recordings, made by
``benchmarks/session_bills.py``. A study processes them in a pseudo-random order, so they are a sample of all of them.
Here they are the whole truth: samples of them are studied as if nothing else were known.
"""

import csv
from collections.abc import Callable
from itertools import islice
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy  # loads ``scipy.stats`` at the first use, not while pytest collects

from stackmem.lab.bench.evidence_figures import (
    MIN_DIFFERING_ALIKE,
    MIN_DIFFERING_OF_SUM,
    MIN_TASKS_ALIKE,
    MIN_TASKS_OF_SUM,
    differing_tasks,
    mean_of_ratios,
    ratio_of_sums,
    share_of_sums,
)
from stackmem.lab.bench.statistics import compare
from tests.conftest import CAMPAIGN

DATA = Path(__file__).with_name("session_bills.csv")
DRAWS = 1_000 if CAMPAIGN else 60
BY_CHANCE = 3 * sqrt(0.05 * 0.95 / DRAWS)
FREQUENT = ("adaptive", "summary:tokens=100000", "compact", "boundary", "mask:poll=30")
"""Strategies whose bill differs from that of ``full`` in at least two of five sessions."""
RARE = ("clear_paying", "clear_cold")
JUDGED = FREQUENT if CAMPAIGN else FREQUENT[:3:2]


def read_bills() -> dict[str, Any]:
    with DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    bills = {name: np.array([[float(row[name])] for row in rows]) for name in islice(rows[0], 3, None)}
    return {"agent": np.array([row["agent"] for row in rows]), **bills}


BILLS = read_bills()
FULL = BILLS["full"]


def covered(
    found: Callable[[Any, Any], Any], over: Any, sessions: int, truth: float, draws: int = DRAWS, under: Any = FULL
) -> tuple[int, int]:
    """Return how many samples had an interval, and how many of these contained the truth."""
    dice, given, held = np.random.default_rng(sessions), 0, 0
    for _ in range(draws):
        drawn = dice.integers(0, len(FULL), sessions)
        interval = found(over[drawn], under[drawn])
        if interval.low is not None:
            given, held = given + 1, held + (interval.low <= truth <= interval.high)
    return given, held


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("sessions", [100, 250] if CAMPAIGN else [100])
def test_the_interval_of_a_sum_of_bills_covers_it(name, sessions):
    given, held = covered(ratio_of_sums, BILLS[name], sessions, BILLS[name].sum() / FULL.sum())
    assert given >= 0.99 * DRAWS
    assert 0.93 - BY_CHANCE <= held / given <= 0.98 + BY_CHANCE


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("sessions", [20, 50, 100] if CAMPAIGN else [20, 50])
def test_the_interval_of_the_mean_session_covers_it_from_twenty_sessions_on(name, sessions):
    given, held = covered(mean_of_ratios, BILLS[name], sessions, (BILLS[name] / FULL).mean())
    assert given >= 0.6 * DRAWS
    assert 0.93 - BY_CHANCE <= held / given <= 0.98 + BY_CHANCE


@pytest.mark.parametrize("name", RARE)
def test_a_strategy_that_seldom_acts_has_an_interval_if_enough_sessions_differ(name):
    given, held = covered(mean_of_ratios, BILLS[name], 50, (BILLS[name] / FULL).mean())
    chance = (np.abs(BILLS[name] / FULL - 1) > 0.001).mean()
    assert given / DRAWS == pytest.approx(scipy.stats.binom.sf(MIN_DIFFERING_ALIKE - 1, 50, chance), abs=0.2)
    assert held >= (0.93 - BY_CHANCE) * given


def test_a_sum_over_few_sessions_has_no_interval():
    few = slice(0, MIN_TASKS_OF_SUM - 1)
    assert ratio_of_sums(BILLS["adaptive"][few], FULL[few]).low is None
    assert mean_of_ratios(BILLS["adaptive"][few], FULL[few]).low is not None
    fewer = slice(0, MIN_TASKS_ALIKE - 1)
    assert mean_of_ratios(BILLS["adaptive"][fewer], FULL[fewer]).low is None


def test_a_difference_in_few_sessions_has_no_interval():
    over = FULL.copy()
    over[: MIN_DIFFERING_OF_SUM - 1] *= 0.5
    over[MIN_DIFFERING_OF_SUM:] *= 1.0001
    assert differing_tasks(over, FULL) == MIN_DIFFERING_OF_SUM - 1
    assert ratio_of_sums(over, FULL).low is None
    over[-1] *= 0.5
    assert ratio_of_sums(over, FULL).low is not None


def test_shares_of_sessions_above_full_are_covered():
    above = (BILLS["adaptive"] > 1.02 * FULL) * 1.0
    for sessions in (20, 100):
        given, held = covered(share_of_sums, above, sessions, above.mean(), under=np.ones_like(above))
        assert given == DRAWS
        assert held / given >= 0.93 - BY_CHANCE


@pytest.mark.parametrize(("found", "sessions"), [(mean_of_ratios, 50), (ratio_of_sums, 100)])
def test_a_strategy_against_itself_is_seldom_called_different(found, sessions):
    """Each session exchanges the bills of both sides by chance, so that neither is cheaper in general."""
    dice, false = np.random.default_rng(11), 0
    for _ in range(DRAWS):
        drawn = dice.integers(0, len(FULL), sessions)
        swapped = dice.random((sessions, 1)) < 0.5
        own, other = BILLS["adaptive"][drawn], FULL[drawn]
        over, under = np.where(swapped, other, own), np.where(swapped, own, other)
        if found is mean_of_ratios:  # the logarithms are symmetric, the ratios are not
            over, under = under * (1 + np.log(over / under)), under
        interval = found(over, under)
        false += not interval.low <= 1 <= interval.high
    assert false <= (0.07 + BY_CHANCE) * DRAWS


def test_equal_strategies_are_called_different_in_at_most_six_of_a_hundred_comparisons():
    """Each session exchanges the bills of both sides by chance, for each of several strategies."""
    dice, false, draws = np.random.default_rng(12), 0, DRAWS // 3
    names = (*JUDGED, *RARE)
    for _ in range(draws):
        drawn = dice.integers(0, len(FULL), 50)
        pairs = {}
        for name in names:
            swapped = dice.random(50) < 0.5
            sides = zip(BILLS[name][drawn, 0].tolist(), FULL[drawn, 0].tolist(), swapped, strict=True)
            pairs[name] = [(other, own) if swap else (own, other) for own, other, swap in sides]
        false += any(one.verdict in ("better", "worse") for one in compare(pairs, "less").values())
    assert false <= (0.06 + 3 * sqrt(0.06 * 0.94 / draws)) * draws


SETS = {
    "all": np.full(len(FULL), True),
    "claude-code": BILLS["agent"] == "claude-code",
    "drawn again": np.random.default_rng(13).integers(0, len(FULL), 150),
}


def sum_and_errors(pairs):
    """The ratio of sums, its standard error by the deltas of the sessions, and their skew."""
    over, under = pairs.T
    ratio = over.sum() / under.sum()
    deltas = (over - ratio * under) / under.mean()
    return ratio, scipy.stats.sem(deltas), scipy.stats.skew(deltas)


def mean_and_errors(pairs):
    ratios = np.divide(*pairs.T)
    return ratios.mean(), scipy.stats.sem(ratios), scipy.stats.skew(ratios)


def by_scipy(pairs, statistic, *, transformed):
    """The interval by its definition: scipy draws, and measures errors and skew; a search finds Hall's ends."""
    value, error, skew = statistic(pairs)

    def hall(distance, its_skew):
        scaled = distance / sqrt(len(pairs))
        return scaled + its_skew * scaled**2 / 3 + its_skew**2 * scaled**3 / 27 + its_skew / (6 * len(pairs))

    def of_draw(drawn, of_skew):
        its, its_error, its_skew = statistic(pairs[np.asarray(drawn, dtype=int)])
        if of_skew:
            return hall((its - value) / its_error, its_skew)
        return (log(its) - log(value)) * its / its_error

    def quantiles(of_skew):
        ran = scipy.stats.bootstrap(
            (range(len(pairs)),), lambda drawn: of_draw(drawn, of_skew), n_resamples=600, method="percentile",
            vectorized=False, rng=5,
        )  # fmt: skip
        return np.quantile(ran.bootstrap_distribution, (0.025, 0.975))

    least, most = quantiles(of_skew=False)
    reach = scipy.stats.t.ppf(0.975, len(pairs) - 1)
    low, high = (value * exp(end * error / value) for end in (-max(reach, most), max(reach, -least)))
    if transformed:
        lowest, highest = (
            value - error * scipy.optimize.brentq(lambda distance, end=end: hall(distance, skew) - end, -99, 99)
            for end in reversed(quantiles(of_skew=True))
        )
        low, high = min(low, lowest), max(high, highest)
    return low, high


@pytest.mark.parametrize("chosen", SETS)
def test_a_second_implementation_agrees_with_the_intervals_of_real_sessions(chosen):
    over, under = BILLS["adaptive"][SETS[chosen]], FULL[SETS[chosen]]
    pairs = np.hstack((over, under))
    for found, statistic in ((ratio_of_sums(over, under), sum_and_errors),
                             (mean_of_ratios(over, under), mean_and_errors)):  # fmt: skip
        low, high = by_scipy(pairs, statistic, transformed=statistic is sum_and_errors)
        assert (found.low, found.high) == pytest.approx((low, high), abs=0.15 * (high - low))
    above = (over > 1.02 * under) * 1.0
    padded = [*above[:, 0], 0.0, 1.0]
    reach = scipy.stats.t.ppf(0.975, len(padded) - 1) * scipy.stats.sem(padded)
    shared = share_of_sums(above, np.ones_like(above))
    assert (shared.low, shared.high) == pytest.approx((max(0, np.mean(padded) - reach), np.mean(padded) + reach))
