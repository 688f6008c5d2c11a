"""Tests and verdicts, against values worked out elsewhere."""

import random
from math import comb, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.bench.intervals import Interval
from stackmem.bench.statistics import NONE_SHOWN, compare, holm, mcnemar, sign_flips, smallest_difference, verdict
from stackmem.errors import UsageError


def test_mcnemar_looks_only_at_the_pairs_that_differ():
    """8 against 1 of 9: 2 × (1 + 9) / 512."""
    assert mcnemar([(1, 0)] * 8 + [(0, 1)]) == pytest.approx(20 / 512)
    assert mcnemar([(1, 0)] * 8 + [(0, 1)] + [(1, 1)] * 500 + [(0, 0)] * 500) == pytest.approx(20 / 512)


def test_mcnemar_without_a_pair_that_differs_shows_nothing():
    assert mcnemar([(1, 1)] * 10) == 1.0
    assert mcnemar([(nan, 1)]) == 1.0
    assert mcnemar([]) == 1.0


def test_flips_of_sign_are_all_tried_where_there_are_few():
    """Of the 2**5 ways to give five gaps a sign, two are as far apart as all of one sign."""
    assert sign_flips([(1, 2), (2, 4), (1, 4), (3, 7), (0, 5)]) == pytest.approx(2 / 32)


def test_three_pairs_can_never_show_a_difference():
    assert sign_flips([(0, 100), (0, 200), (0, 300)]) == pytest.approx(0.25)


def test_many_equal_gaps_are_no_accident_and_no_gap_is_no_difference():
    assert sign_flips([(1, 2)] * 30) == pytest.approx(2 / 5_000)
    assert sign_flips([(2, 2)] * 30) == 1.0
    assert sign_flips([(5, 4)]) == 1.0


def test_holm_corrects_as_its_paper_does():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=12))
def test_a_correction_never_makes_a_p_smaller_nor_changes_the_order(values):
    corrected = holm(values)
    assert list(corrected) == list(values)
    for name, value in values.items():
        assert value <= corrected[name] <= 1
        assert all(corrected[name] <= corrected[other] for other in values if value < values[other])


def test_a_verdict_needs_an_interval_that_excludes_nothing_and_a_test_that_agrees():
    clear, touching = Interval(2.0, 1.0, 3.0, 20), Interval(2.0, 0.0, 3.0, 20)
    assert verdict(clear, 0.01, "more") == "better"
    assert verdict(clear, 0.01, "less") == "worse"
    assert verdict(Interval(-2.0, -3.0, -1.0, 20), 0.01, "less") == "better"
    assert verdict(clear, 0.06, "more") == NONE_SHOWN
    assert verdict(touching, 0.01, "more") == NONE_SHOWN
    assert verdict(Interval(2.0, None, None, 1), 0.01, "more") == NONE_SHOWN


def test_strategies_are_compared_with_the_baseline_in_pairs():
    found = compare({"half": [(n, 2 * n) for n in range(5, 35)]}, "less")["half"]
    assert found.difference.value == -19.5
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.5)
    assert found.verdict == "better"


def test_what_one_comparison_shows_many_do_not():
    """Six of six pairs: p = 2/64, which is below 1 in 20 alone and not among twenty."""
    six = [(1, 0)] * 6 + [(1, 1)] * 6
    alone = compare({"it": six}, "more", yes_no=True)["it"]
    among = compare({"it": six, **{f"other {n}": [(1, 1)] * 12 for n in range(19)}}, "more", yes_no=True)["it"]
    assert (alone.verdict, among.verdict) == ("better", NONE_SHOWN)
    assert alone.p == among.p
    assert among.p_corrected == pytest.approx(20 * alone.p)
    assert among.corrected.low is not None
    assert alone.corrected.low is not None
    assert among.corrected.low <= alone.corrected.low


@pytest.mark.parametrize("pairs", [6, 12])
def test_strategies_that_are_the_same_are_seldom_called_different(pairs):
    """Bills are skewed; of 120 comparisons of equals at most one in twenty may be called, give or take chance."""
    dice = random.Random(pairs)
    called = 0
    for _ in range(120):
        drawn = [(dice.lognormvariate(0, 1), dice.lognormvariate(0, 1)) for _ in range(pairs)]
        called += compare({"same": drawn}, "less")["same"].verdict != NONE_SHOWN
    assert called <= 11  # more than that comes by chance once in thirty times


def test_a_strategy_that_is_half_as_dear_is_called_so():
    dice = random.Random(3)
    drawn = [(base / 2 * dice.lognormvariate(0, 0.2), base) for base in (dice.lognormvariate(0, 1) for _ in range(24))]
    assert compare({"half": drawn}, "less")["half"].verdict == "better"


def test_trials_without_a_partner_are_counted_and_left_out():
    found = compare({"a": [(1, 2), (nan, 2), (1, nan), (3, 4)], "b": [(nan, 1)]}, "less")
    assert found["a"].unpaired == 2
    assert found["a"].difference.count == 2
    assert "b" not in found


AMOUNTS = st.floats(0, 1e9) | st.just(nan)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=12))
def test_any_amounts_can_be_compared(pairs):
    for found in compare({"a": pairs, "b": list(reversed(pairs))}, "less").values():
        assert 0 <= found.p <= found.p_corrected <= 1
        low, high = found.corrected.low, found.corrected.high
        if low is None or high is None or low <= 0 <= high:
            assert found.verdict == NONE_SHOWN


def test_equal_figures_are_no_difference_whatever_their_number():
    assert compare({"a": [(3.0, 3.0)] * 50}, "less")["a"].verdict == NONE_SHOWN


def power_by_hand(pairs: int, rate: float, other: float) -> float:
    """The sum over every outcome of the pairs, each judged by the test itself."""
    gained, lost = (1 - rate) * other, rate * (1 - other)
    told = 0.0
    for won in range(pairs + 1):
        for missed in range(pairs + 1 - won):
            same = pairs - won - missed
            ways = comb(pairs, won) * comb(pairs - won, missed)
            if mcnemar([(1, 0)] * won + [(0, 1)] * missed) <= 0.05:
                told += ways * gained**won * lost**missed * (1 - gained - lost) ** same
    return told


def test_the_smallest_difference_is_where_the_test_tells_four_times_in_five():
    found = smallest_difference(15, 0.9)
    assert found is not None
    assert power_by_hand(15, 0.9, 0.9 - found) == pytest.approx(0.8, abs=0.005)


def test_more_pairs_show_smaller_differences_and_few_show_none():
    shown = [smallest_difference(pairs, 0.5) for pairs in (30, 100, 1_000)]
    assert shown == sorted(shown, reverse=True)
    assert smallest_difference(3, 0.5) is None
    assert smallest_difference(0, 0.5) is None


def test_a_rate_that_is_none_cannot_be_planned():
    with pytest.raises(UsageError, match="give a rate from 0 to 1"):
        smallest_difference(10, 1.5)
    with pytest.raises(UsageError, match="give a rate from 0 to 1"):
        smallest_difference(10, nan)
