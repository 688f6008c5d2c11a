"""Statistical tests and verdicts, compared with independently computed values."""

import os
import random
from math import comb, exp, log, nan, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.errors import UsageError
from stackmem.lab.bench.intervals import Interval
from stackmem.lab.bench.statistics import (  # fmt: skip
    ALIKE,
    NONE_SHOWN,
    TOO_FEW,
    compare,
    holm,
    sign_flips,
    sign_test,
    smallest_difference,
    verdict,
)


def test_the_sign_test_looks_only_at_the_units_that_differ():
    """8 against 1 of 9: 2 × (1 + 9) / 512."""
    assert sign_test([1] * 8 + [-1]) == pytest.approx(20 / 512)
    assert sign_test([0.2] * 8 + [-0.9] + [0] * 1_000) == pytest.approx(20 / 512)


def test_the_sign_test_without_a_unit_that_differs_shows_nothing():
    assert sign_test([0] * 10) == 1.0
    assert sign_test([]) == 1.0


def test_all_sign_flips_are_tried_if_there_are_few():
    """Of the 2**5 sign assignments to five gaps, two are as extreme as all of one sign."""
    assert sign_flips([-1, -2, -3, -4, -5]) == pytest.approx(2 / 32)
    assert sign_flips([3, 2, -1]) == pytest.approx(4 / 8)


def test_many_units_use_sampled_signs_and_p_is_never_zero():
    assert sign_flips([1.0] * 30) == pytest.approx(1 / 10_000)
    gaps = [1.0, -1.0] * 20 + [1.0] * 6
    assert sign_flips(gaps) == pytest.approx(sum(comb(46, n) for n in range(21)) / 2**45, rel=0.2)


def test_equal_values_are_not_a_difference():
    assert sign_flips([0.0] * 30) == 1.0
    assert sign_flips([1.0]) == 1.0


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


def test_a_verdict_needs_an_interval_that_excludes_none_and_a_test_that_agrees():
    clear, touching = Interval(2.0, 1.5, 3.0, 20), Interval(2.0, 1.0, 3.0, 20)
    assert verdict(clear, 0.01, "more") == "better"
    assert verdict(clear, 0.01, "less") == "worse"
    assert verdict(Interval(0.5, 0.3, 0.9, 20), 0.01, "less") == "better"
    assert verdict(clear, 0.06, "more") == NONE_SHOWN
    assert verdict(touching, 0.01, "more") == NONE_SHOWN
    assert verdict(Interval(2.0, None, None, 1), 0.01, "more") == TOO_FEW


def test_a_significant_but_negligible_difference_is_neither_better_nor_worse():
    """A bill within 3 %, success within 5 points."""
    assert verdict(Interval(0.98, 0.96, 0.999, 20), 0.01, "less") == NONE_SHOWN
    assert verdict(Interval(0.98, 0.975, 0.999, 20), 0.01, "less") == ALIKE
    assert verdict(Interval(0.96, 0.95, 0.999, 20), 0.01, "less") == "better"
    assert verdict(Interval(-0.04, -0.06, -0.01, 20), 0.01, "more", yes_no=True) == NONE_SHOWN
    assert verdict(Interval(-0.06, -0.09, -0.01, 20), 0.01, "more", yes_no=True) == "worse"
    assert verdict(Interval(0.0, -0.04, 0.04, 20), 1.0, "more", yes_no=True) == ALIKE


def test_amounts_are_compared_by_the_mean_of_the_units_ratios():
    found = compare({"half": [(n, 2 * n) for n in range(5, 35)]}, "less")["half"]
    assert found.effect.value == pytest.approx(0.5)
    assert found.verdict == "better"
    assert compare({"it": [(1, 4), (1, 1)]}, "less")["it"].effect.value == pytest.approx(0.5)


def test_multiple_comparisons_need_stronger_evidence():
    """Six of six units: p = 2/64, which is below 1 in 20 for one comparison but not among twenty."""
    six = [(1, 0)] * 6 + [(1, 1)] * 6
    alone = compare({"it": six}, "more", yes_no=True)["it"]
    among = compare({"it": six, **{f"other {n}": [(1, 1)] * 12 for n in range(19)}}, "more", yes_no=True)["it"]
    assert (alone.verdict, among.verdict) == ("better", TOO_FEW)
    assert alone.p == among.p
    assert among.p_corrected == pytest.approx(20 * alone.p)
    assert among.corrected.low is not None
    assert alone.corrected.low is not None
    assert among.corrected.low <= alone.corrected.low


def test_success_has_no_interval_if_too_few_units_differ():
    found = compare({"it": [(1, 0)] * 5 + [(1, 1)] * 50}, "more", yes_no=True)["it"]
    assert (found.verdict, found.effect) == (TOO_FEW, Interval(pytest.approx(5 / 55), None, None, 55))


def test_eight_worlds_are_too_few_for_twenty_strategies():
    found = compare({f"{n}": [(1, 2)] * 8 for n in range(20)}, "less")
    assert {one.verdict for one in found.values()} == {TOO_FEW}
    assert compare({f"{n}": [(1, 2)] * 8 for n in range(6)}, "less")["0"].verdict == "better"


DRAWS = 10_000 if os.environ.get("STACKMEM_CAMPAIGN") else 300


def drawn_worlds(dice: random.Random, worlds: int, apart: float) -> list[tuple[float, float]]:
    """Draw bills as in the zoo: worlds differ in size, strategies lead or lag by world, and seeds differ little."""
    sizes = [(dice.lognormvariate(0, 1), dice.gauss(apart, 0.3)) for _ in range(worlds)]
    seeds = [[(size * exp(lead + dice.gauss(0, 0.02)), size * exp(dice.gauss(0, 0.02))) for _ in range(3)]
             for size, lead in sizes]  # fmt: skip
    return [(sum(mine for mine, _ in one) / 3, sum(base for _, base in one) / 3) for one in seeds]


@pytest.mark.parametrize("worlds", [8, 24])
def test_equals_are_called_different_at_most_six_times_in_a_hundred(worlds):
    dice = random.Random(worlds)
    found = [compare({"same": drawn_worlds(dice, worlds, 0)}, "less")["same"] for _ in range(DRAWS)]
    called = sum(one.verdict in ("better", "worse") for one in found)
    held = sum(one.effect.low <= 1 <= one.effect.high for one in found)
    assert called <= 0.05 * DRAWS + 3 * sqrt(0.05 * 0.95 * DRAWS)
    assert abs(held - 0.95 * DRAWS) <= 0.02 * DRAWS + 3 * sqrt(0.05 * 0.95 * DRAWS)


@pytest.mark.parametrize("worlds", [20, 24])
def test_success_of_equals_is_called_different_seldom_and_covered(worlds):
    """A world in five has different results under the two strategies, in either direction."""
    dice, called, missed = random.Random(worlds), 0, 0
    for _ in range(DRAWS):
        pairs = [(1.0, 0.0) if roll < 0.15 else (0.0, 1.0) if roll < 0.3 else (1.0, 1.0)
                 for roll in (dice.random() for _ in range(worlds))]  # fmt: skip
        (found,) = compare({"same": pairs}, "more", yes_no=True).values()
        called += found.verdict in ("better", "worse")
        missed += found.effect.low is not None and not found.effect.low <= 0 <= found.effect.high
    assert max(called, missed) <= 0.05 * DRAWS + 3 * sqrt(0.05 * 0.95 * DRAWS)


def test_a_strategy_that_is_half_as_dear_is_called_so():
    dice = random.Random(3)
    assert compare({"half": drawn_worlds(dice, 24, log(0.5))}, "less")["half"].verdict == "better"


def test_units_without_a_partner_are_left_out():
    found = compare({"a": [(1, 2), (nan, 2), (1, nan), (3, 4), (0, 3)], "b": [(nan, 1)]}, "less")
    assert found["a"].effect.count == 2
    assert "b" not in found


AMOUNTS = st.floats(0, 1e9) | st.just(nan)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=12))
def test_any_amounts_can_be_compared(pairs):
    for found in compare({"a": pairs, "b": list(reversed(pairs))}, "less").values():
        assert 0 <= found.p <= found.p_corrected <= 1
        low, high = found.corrected.low, found.corrected.high
        if low is None or high is None or low <= 1 <= high:
            assert found.verdict in (NONE_SHOWN, TOO_FEW, ALIKE)


def test_equal_figures_are_alike_whatever_their_number():
    assert compare({"a": [(3.0, 3.0)] * 50}, "less")["a"].verdict == ALIKE


def power_by_hand(pairs: int, rate: float, other: float) -> float:
    """Sum over every outcome of the pairs, each judged by the test itself."""
    gained, lost = (1 - rate) * other, rate * (1 - other)
    told = 0.0
    for won in range(pairs + 1):
        for missed in range(pairs + 1 - won):
            same = pairs - won - missed
            ways = comb(pairs, won) * comb(pairs - won, missed)
            if sign_test([1] * won + [-1] * missed) <= 0.05:
                told += ways * gained**won * lost**missed * (1 - gained - lost) ** same
    return told


def test_the_smallest_difference_is_detected_four_times_in_five():
    found = smallest_difference(15, 0.9)
    assert found is not None
    assert power_by_hand(15, 0.9, 0.9 - found) == pytest.approx(0.8, abs=0.005)


def test_more_pairs_show_smaller_differences_and_few_show_none():
    shown = [smallest_difference(pairs, 0.5) for pairs in (30, 100, 1_000)]
    assert shown == sorted(shown, reverse=True)
    assert smallest_difference(3, 0.5) is None
    assert smallest_difference(8, 0.95) is not None
    assert smallest_difference(8, 0.95, comparisons=20) is None
    assert smallest_difference(0, 0.5) is None


def test_a_rate_that_is_none_cannot_be_planned():
    with pytest.raises(UsageError, match="give a rate from 0 to 1"):
        smallest_difference(10, 1.5)
    with pytest.raises(UsageError, match="give a rate from 0 to 1"):
        smallest_difference(10, nan)
