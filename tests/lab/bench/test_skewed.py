"""Intervals and verdicts hold for skewed data, and agree with a second implementation that uses scipy."""

import random
from math import exp, sqrt

import numpy as np
import pytest
import scipy  # loads ``scipy.stats`` at the first use, not while pytest collects

from stackmem.core.errors import UsageError
from stackmem.lab.bench.evidence import RecordingEntry, StrategyBill
from stackmem.lab.bench.evidence_figures import over_tasks
from stackmem.lab.bench.intervals import cost_per_solved, wider_interval
from stackmem.lab.bench.statistics import NONE_SHOWN, compare, pairs_to_find, sign_flips, studentized_p

WORLDS = 23
LOG_RATIOS = {
    "even": [-0.3 + 0.02 * number for number in range(WORLDS)],
    "skewed": [-0.1 + 0.9 * (number / WORLDS) ** 4 for number in range(WORLDS)],
    "few": [0.05, -0.2, -0.15, -0.4, 0.3, -0.25, -0.1, -0.33],
}


def entry(task, bill, base, model="a"):
    told = {"full": StrategyBill((base,) * 3, 1, 1, 0), "other": StrategyBill((bill,) * 3, 1, 1, 0)}
    return RecordingEntry(f"{model}/{task}", "s", model, task, steps=20, bills=told)


def bills(one):
    return one.bills["other"].usd[0], one.bills["full"].usd[0]


def studentized_by_scipy(values, statistic):
    """The interval from the definition: scipy draws, and each draw is measured in its own standard error."""
    units = np.array(values)
    middle, error = statistic(units)

    def distance(drawn):
        its, its_error = statistic(units[drawn])
        return (its - middle) / its_error if its_error > 0 else 0.0

    ran = scipy.stats.bootstrap(
        (np.arange(len(units)),), distance, n_resamples=1_000, method="percentile", vectorized=False, rng=5
    )
    least, most = np.quantile(ran.bootstrap_distribution, (0.025, 0.975))
    reach = scipy.stats.t.ppf(0.975, len(values) - 1)
    return middle - max(reach, most) * error, middle + max(reach, -least) * error


def transformed_by_scipy(values):
    """The interval with Hall's transformation: scipy draws and measures the skew, and a search finds the ends."""

    def transformed(distance, drawn):
        scaled, skew = distance / sqrt(len(drawn)), scipy.stats.skew(drawn)
        return scaled + skew * scaled**2 / 3 + skew**2 * scaled**3 / 27 + skew / (6 * len(drawn))

    def of_draw(drawn):
        return transformed((drawn.mean() - np.mean(values)) / scipy.stats.sem(drawn), drawn)

    ran = scipy.stats.bootstrap(
        (np.array(values),), of_draw, n_resamples=1_000, method="percentile", vectorized=False, rng=5
    )
    ends = np.quantile(ran.bootstrap_distribution, (0.975, 0.025))
    return tuple(
        np.mean(values) - scipy.stats.sem(values)
        * scipy.optimize.brentq(lambda distance, end=end: transformed(distance, values) - end, -99, 99)
        for end in ends
    )  # fmt: skip


@pytest.mark.parametrize("name", LOG_RATIOS)
def test_the_interval_of_a_mean_agrees_with_scipy(name):
    values = LOG_RATIOS[name]
    low, high = studentized_by_scipy(values, lambda drawn: (drawn.mean(), scipy.stats.sem(drawn)))
    if len(values) >= 15:
        lowest, highest = transformed_by_scipy(values)
        low, high = min(low, lowest), max(high, highest)
    assert wider_interval(values) == pytest.approx((low, high), abs=0.12 * (high - low))


def log_ratio_and_jackknife(pairs):
    """The logarithm of a ratio of sums, and the jackknife error from leaving out each unit in turn."""
    left_out = [np.delete(pairs, unit, axis=0).sum(axis=0) for unit in range(len(pairs))]
    logs = np.log([over / under for over, under in left_out])
    over, under = pairs.sum(axis=0)
    return np.log(over / under), sqrt((len(pairs) - 1) / len(pairs) * ((logs - logs.mean()) ** 2).sum())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_interval_of_the_cost_per_solved_trial_agrees_with_scipy(seed):
    dice = np.random.default_rng(seed)
    units = np.column_stack([dice.lognormal(0, 0.8, WORLDS), dice.integers(2, 6, WORLDS)])
    ends = np.exp(studentized_by_scipy(units, log_ratio_and_jackknife))
    found = cost_per_solved([(over, under) for over, under in units.tolist()])
    assert found.value == pytest.approx(units[:, 0].sum() / units[:, 1].sum())
    assert np.log([found.low, found.high]) == pytest.approx(np.log(ends), abs=0.12 * np.log(ends[1] / ends[0]))


def test_a_share_that_is_the_same_in_all_tasks_is_not_sure():
    sample = [entry(f"t{number}", 0.0, 1.0) for number in range(10)]
    found = over_tasks(sample, bills, share=True)
    assert (found.value, found.low) == (0.0, 0.0)
    assert 0.1 < found.high < 0.5
    assert (over_tasks([entry(f"t{n}", 0.9, 1.0) for n in range(80)], bills).high) == pytest.approx(0.9)


def test_equal_strategies_with_skewed_effects_are_seldom_called_different():
    """Twenty strategies whose effects over worlds are exponential with mean zero: most worlds gain, few lose much."""
    dice, called, by_signs, runs = np.random.default_rng(4), 0, 0, 15
    for _ in range(runs):
        gaps = dice.exponential(size=(20, WORLDS)) - 1
        pairs = {f"{number}": [(exp(gap), 1.0) for gap in row] for number, row in enumerate(gaps)}
        called += any(one.verdict in ("better", "worse") for one in compare(pairs, "less").values())
        by_signs += min(map(sign_flips, gaps.tolist())) * 20 < 0.05
    assert called <= 2
    assert by_signs > called


def test_the_bootstraps_p_is_small_for_a_clear_shift_only():
    dice = random.Random(5)
    noise = [dice.gauss(0, 1) for _ in range(20)]
    assert studentized_p([one + 3 for one in noise]) < 0.01
    assert studentized_p([one - sum(noise) / 20 for one in noise]) > 0.5
    assert studentized_p([1.0] * 5) == 0.0


def pairs_of(both, lost, gained, neither=0):
    return [(1, 1)] * both + [(0, 1)] * lost + [(1, 0)] * gained + [(0, 0)] * neither


def test_forty_four_to_no_discordant_pairs_get_a_verdict():
    """74 against 98 % of 184 paired trials."""
    found = compare({"mask": pairs_of(136, 44, 0, 4)}, "more", yes_no=True, least=0.0)["mask"]
    assert (found.gains, found.lost, found.verdict) == (0, 44, "worse")
    assert found.p == pytest.approx(2 * 0.5**44)
    assert found.p == pytest.approx(scipy.stats.binomtest(0, 44).pvalue)


def test_few_or_balanced_discordant_pairs_show_nothing():
    found = compare({"it": pairs_of(90, 5, 5), "too": pairs_of(90, 4, 0)}, "more", yes_no=True, least=0.0)
    assert found["it"].verdict == NONE_SHOWN
    assert found["too"].verdict == "too few"


def test_the_announced_number_of_pairs_finds_five_points_four_times_in_five():
    needed, dice, found, runs = pairs_to_find(0.05, 0.9), np.random.default_rng(6), 0, 100
    for _ in range(runs):
        pairs = list(zip(dice.random(needed) < 0.85, dice.random(needed) < 0.9, strict=True))
        made = compare({"it": [(float(own), float(base)) for own, base in pairs]}, "more", yes_no=True, least=0.0)
        found += made["it"].verdict == "worse"
    assert 70 <= found <= 92


@pytest.mark.parametrize(("gap", "rate"), [(0.0, 0.5), (0.6, 0.5), (0.05, 1.2)])
def test_a_gap_that_does_not_fit_the_rate_is_refused(gap, rate):
    with pytest.raises(UsageError, match="cannot be planned"):
        pairs_to_find(gap, rate)


def test_more_comparisons_and_smaller_gaps_need_more_pairs():
    assert pairs_to_find(0.05, 0.9) < pairs_to_find(0.05, 0.9, 10) < pairs_to_find(0.02, 0.9, 10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("few", [1e-5, 1e-4])
def test_one_task_that_makes_the_whole_difference_gives_no_interval(few):
    entries = [entry(f"a{number}", 1.0 + few * (number % 3), 1.0) for number in range(1, 80)]
    entries += [entry(f"b{number}", 1.0, 1.0, "b") for number in range(1, 80)]
    entries += [entry("a0", 1.5, 1.0), entry("b0", 3.0, 1.0, "b")]
    found = over_tasks(entries, bills)
    assert found.value == pytest.approx(1.0156, abs=1e-3)
    assert (found.low, found.high) == (None, None)
