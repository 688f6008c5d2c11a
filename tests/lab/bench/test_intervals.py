"""Figures with intervals, compared with independently computed values."""

import os
import random
import tracemalloc
from collections.abc import Callable
from functools import partial
from math import exp, inf, isfinite, nan, sqrt

import pytest

from stackmem.lab.bench.intervals import (
    Interval,
    Pair,
    cost_per_solved,
    mean,
    pass_at_k,
    pass_hat_k,
    power_law,
    ratio,
    share,
)


def ends(found: Interval | None) -> tuple[float | None, float | None]:
    assert found is not None
    return (found.low, found.high)


def value(found: Interval | None) -> float:
    assert found is not None
    return found.value


def test_a_share_has_the_interval_of_t_with_one_more_of_each_end():
    """Ten values with mean 0.6 and deviation sqrt(4 * 6 / 10 / 9), t of nine degrees 2.2622, around the middle."""
    reach = 2.2622 * sqrt(4 * 6 / 10 / 9) / sqrt(10)
    assert ends(share([1.0] * 5 + [0.0] * 3)) == pytest.approx((0.6 - reach, 0.6 + reach), abs=1e-4)


def test_a_share_of_units_that_are_all_alike_is_not_sure():
    low, high = ends(share([1.0] * 8))
    assert low is not None
    assert (0.6 < low < 0.75, high) == (True, 1.0)
    assert ends(share([0.0])) == (0.0, 1.0)


def test_a_share_of_zero_items_is_undefined():
    assert share([]) is None


def test_the_interval_of_a_mean_is_that_of_the_normal_where_the_sample_is_large():
    values = [float(number % 10) for number in range(1_000)]
    reach = 1.96 * sqrt(8.25 / 1_000)
    assert ends(mean(values)) == pytest.approx((4.5 - reach, 4.5 + reach), abs=0.02)


def test_many_values_are_fast():
    tracemalloc.start()
    found = mean([float(number) for number in range(20_000)])
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ends(found) == pytest.approx((9_999.5 - 80, 9_999.5 + 80), abs=10)
    assert peak_bytes < 100e6


def test_the_same_values_have_the_same_interval_each_time():
    assert mean([1, 2, 4, 8, 16]) == mean([1, 2, 4, 8, 16])


def test_more_confidence_is_a_wider_interval():
    (low, high), (lower, higher) = ends(mean([101, 102, 104, 108, 116])), ends(mean([101, 102, 104, 108, 116], 0.999))
    assert lower < low < high < higher


def test_non_numbers_are_left_out_of_a_mean():
    assert mean([1.0, nan, 3.0, inf]) == mean([1.0, 3.0])
    assert mean([nan]) is None
    assert mean([]) is None


def test_one_value_has_no_interval_and_equal_values_a_tiny_one():
    assert mean([7.0]) == Interval(7.0, None, None, 1)
    assert mean([7.0] * 5) == Interval(7.0, 7.0, 7.0, 5)


def test_a_ratio_is_of_the_means_and_not_the_mean_of_ratios():
    found = ratio([(1, 10), (10, 10), (1, 1)])
    assert found is not None
    assert found.value == pytest.approx(12 / 21)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 12 / 21 < found.high


def test_a_constant_ratio_has_no_spread():
    assert ends(ratio([(1, 2), (10, 20), (3, 6)])) == pytest.approx((0.5, 0.5))


def test_a_ratio_to_nothing_is_none():
    assert ratio([(1, 0), (2, 0)]) is None
    assert ratio([]) is None


def test_the_cost_of_a_solved_task_counts_the_trials_that_failed():
    found = cost_per_solved([(1.0, 1), (1.0, 0)] * 20)
    assert found is not None
    assert found.value == 2.0
    assert found.low is not None
    assert found.high is not None
    assert 1.3 < found.low < 2.0 < found.high < 4.0


def test_the_cost_of_a_solved_task_is_open_above_where_none_might_have_been_solved():
    found = cost_per_solved([(1.0, 0), (1.0, 0), (1.0, 1)])
    assert found is not None
    assert found.value == 3.0
    assert found.low is not None
    assert isfinite(found.low)
    assert found.high == inf
    assert cost_per_solved([(1.0, 0)] * 3) is None


def test_pass_at_k_is_the_unbiased_estimate_of_its_paper():
    assert value(pass_at_k({"a": [[True, False, False]]}, 2)) == pytest.approx(2 / 3)
    assert value(pass_at_k({"a": [[True] * 3 + [False] * 7]}, 5)) == pytest.approx(1 - 21 / 252)


def test_pass_hat_k_is_the_share_of_choices_that_all_passed():
    assert value(pass_hat_k({"a": [[True, True, False]]}, 2)) == pytest.approx(1 / 3)


def test_with_one_trial_both_are_the_success_rate():
    tasks = {"a": [[True, False]], "b": [[True, True]], "c": [[False, False]]}
    for found in (pass_at_k(tasks, 1), pass_hat_k(tasks, 1)):
        assert found is not None
        assert found.value == pytest.approx(0.5)


def test_their_intervals_are_over_the_worlds_whose_tasks_are_averaged():
    found = pass_hat_k({f"{n}": [[n < 5] * 3, [n < 5] * 3] for n in range(10)}, 3)
    assert found is not None
    assert found.count == 10
    assert ends(found) == pytest.approx((0.17, 0.83), abs=0.01)


def test_a_task_with_fewer_trials_than_k_is_left_out():
    whole = [True, False, False]
    assert (
        pass_at_k({"a": [[True]], "b": [whole]}, 2)
        == pass_at_k({"b": [[True], whole]}, 2)
        == pass_at_k({"b": [whole]}, 2)
    )
    assert pass_at_k({"a": [[True]]}, 2) is None
    assert pass_at_k({"a": [[True]]}, 0) is None


def coverage(drawn: Callable[[random.Random], float], truth: float, units: int, draws: int, kind=mean) -> float:
    """Return the share of samples whose interval contains the true value."""
    dice, held = random.Random(units), 0
    for _ in range(draws):
        low, high = ends(kind([drawn(dice) for _ in range(units)]))
        assert low is not None
        assert high is not None
        held += low <= truth <= high
    return held / draws


DRAWS = 4_000 if os.environ.get("STACKMEM_CAMPAIGN") else 250
MISSED_BY_CHANCE = 3 * sqrt(0.05 * 0.95 / DRAWS)


@pytest.mark.parametrize("units", [8, 24])
@pytest.mark.parametrize("chance", [0.5, 0.8, 0.95])
def test_an_interval_of_a_share_holds_the_truth_nineteen_times_in_twenty(units, chance):
    held = coverage(lambda dice: float(dice.random() < chance), chance, units, DRAWS, share)
    assert held >= 0.93 - MISSED_BY_CHANCE


@pytest.mark.parametrize("units", [8, 24])
def test_an_interval_of_a_mean_holds_the_truth_nineteen_times_in_twenty(units):
    held = coverage(lambda dice: dice.gauss(5, 1), 5, units, DRAWS)
    assert 0.93 - MISSED_BY_CHANCE <= held <= 0.97 + MISSED_BY_CHANCE


def bills(spread: float, apart: float, dice: random.Random) -> Pair:
    """Bills of a larger or smaller world, under a strategy that costs 0.9 of the baseline on average."""
    size = dice.lognormvariate(0, spread)
    return 0.9 * size * exp(dice.gauss(-(apart**2) / 2, apart)), size


def costs(dice: random.Random) -> Pair:
    """Cost of a world, and the share of its three trials that were solved: 0.8 on average."""
    return dice.lognormvariate(0, 0.5), sum(dice.random() < 0.8 for _ in range(3)) / 3


RATIOS = DRAWS // 4


@pytest.mark.parametrize("units", [8, 24])
@pytest.mark.parametrize(
    ("drawn", "truth"),
    [(partial(bills, 0.5, 0.2), 0.9), (partial(bills, 1.0, 0.3), 0.9), (costs, exp(0.125) / 0.8)],
    ids=["worlds", "worlds that differ much", "solved"],
)
def test_an_interval_of_a_ratio_of_sums_holds_the_truth_nineteen_times_in_twenty(units, drawn, truth):
    dice, held = random.Random(units), 0
    for _ in range(RATIOS):
        low, high = ends(ratio([drawn(dice) for _ in range(units)]))
        held += low <= truth <= high
    chance = 3 * sqrt(0.05 * 0.95 / RATIOS)
    assert 0.93 - chance <= held / RATIOS <= 0.97 + chance


def test_an_exponent_is_exact_without_noise():
    found = power_law([(x, 3 * x**1.5) for x in (10, 60, 300, 1_000)])
    assert found is not None
    assert found.value == pytest.approx(1.5)
    assert ends(found) == pytest.approx((1.5, 1.5), abs=1e-5)


def test_the_interval_of_an_exponent_is_that_of_the_regression():
    """Logarithms (0,0), (1,1), (2,1): slope 1/2, its standard error 1/sqrt(12), t of one degree 12.706."""
    e = 2.718281828459045
    found = power_law([(1, 1), (e, e), (e**2, e)])
    assert found is not None
    assert ends(found) == pytest.approx((0.5 - 12.7062 / sqrt(12), 0.5 + 12.7062 / sqrt(12)), abs=1e-3)


def test_an_exponent_needs_two_horizons_and_its_interval_three_points():
    assert power_law([(10, 5), (10, 6)]) is None
    assert power_law([]) is None
    assert power_law([(10, 10), (100, 100)]) == Interval(pytest.approx(1.0), None, None, 2)


def test_points_without_a_logarithm_are_left_out_of_a_fit():
    assert power_law([(10, 10), (100, 100), (1_000, 0), (5, nan), (0, 4)]) == power_law([(10, 10), (100, 100)])
