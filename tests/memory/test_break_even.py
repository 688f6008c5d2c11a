"""When a frame pays off, compared with explicit sums."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.pricing import Price
from stackmem.memory.shared.break_even import (
    LIFE_SECONDS,
    STEP_SECONDS,
    FrameAdvice,
    Rates,
    best_steps,
    first_advice,
    frame_advice,
    frame_tokens,
    hour_pays,
    least_steps,
    looked_tokens,
    phase_steps,
    rates,
    with_pauses,
    worth_the_risk,
)

USUAL = Rates()
MOST = 15


def test_a_frame_costs_two_replies_an_opening_a_result_and_the_index():
    assert frame_tokens(USUAL, 100) == 300 * 5 + 300 * 1.25 + 1.25 * (400 + 400 + 100)


def reads_of_one_conversation(steps: int, step_tokens: float, read: float) -> float:
    return sum(read * step_tokens * step for step in range(steps))


@pytest.mark.parametrize("read", [0.1, 0.05, 0.025])
@pytest.mark.parametrize("step_tokens", [300.0, 700.0, 1_500.0])
def test_no_other_phase_that_ends_while_the_parent_is_cached_costs_a_hundredth_less(read, step_tokens):
    def cost(steps: int) -> float:
        return (frame_tokens(prices, 0) + reads_of_one_conversation(steps, step_tokens, read)) / steps

    prices = Rates(read=read)
    assert cost(phase_steps(prices, step_tokens, 0)) <= 1.01 * min(map(cost, range(2, MOST + 1)))


@pytest.mark.parametrize("read", [0.1, 0.05, 0.025])
def test_two_best_phases_in_frames_cost_what_one_conversation_of_both_costs(read):
    prices, step_tokens = Rates(read=read), 700.0
    best = round(best_steps(prices, step_tokens, 0))
    apart = 2 * (frame_tokens(prices, 0) + reads_of_one_conversation(best, step_tokens, read))
    assert apart == pytest.approx(reads_of_one_conversation(2 * best, step_tokens, read), rel=0.1)
    told = first_advice(prices, step_tokens, 0)
    assert abs(told.least - 2 * best) <= 1
    assert told.phase == min(best, MOST)


@given(st.integers(200, 100_000), st.floats(0.01, 0.5), st.floats(0, 5_000))
def test_a_frame_pays_from_the_least_number_of_steps_on_and_not_before(history, read, looked):
    prices = Rates(read=read)
    least = least_steps(prices, history, 0, looked)

    def saved(steps: int) -> float:
        return read * history * (steps - 2) - frame_tokens(prices, 0) - 0.3 * steps * looked

    if least < 999:
        assert saved(least) >= -1e-6
    assert saved(least - 1) < 1e-6


def test_a_phase_ends_in_half_the_life_of_the_parents_entry_whatever_reads_cost():
    assert MOST == LIFE_SECONDS / STEP_SECONDS / 2
    assert phase_steps(rates(None, 0.0), 1.0, 0) == MOST


@given(st.floats(0.01, 0.5), st.floats(0, 1e6), st.floats(0, 1e4))
def test_a_push_that_turns_out_to_be_useless_costs_no_more_than_its_share_of_the_bill(read, cost, index):
    prices = Rates(read=read)
    if worth_the_risk(prices, cost, index):
        assert frame_tokens(prices, index) <= 0.03 * cost
    assert worth_the_risk(prices, 1e9, index)


def test_only_a_long_conversation_gets_advice_with_its_own_figures():
    assert frame_advice(USUAL, [], 0) is None
    assert frame_advice(USUAL, [700] * 12, 0) is None
    assert frame_advice(USUAL, [700] * 20, 0) == FrameAdvice(6, 9, 700)


def test_a_long_file_makes_the_phase_no_shorter_but_looking_for_it_again_costs():
    with_file, as_much = [700] * 11 + [13_000], [700] * 29
    assert sum(as_much) < sum(with_file)
    assert frame_advice(USUAL, as_much, 0) == FrameAdvice(5, 9, 700)
    assert frame_advice(USUAL, with_file, 0) is None
    assert frame_advice(USUAL, [*as_much, 13_000], 0) == FrameAdvice(5, 9, 700)


def test_a_result_that_is_looked_for_again_costs_a_call_and_its_length_again():
    assert looked_tokens(USUAL, [600] * 5) == pytest.approx(50 * 5 + 1.25 * (50 + 600))
    assert looked_tokens(USUAL, [0, 1_000]) == pytest.approx(50 * 5 + 1.25 * (50 + 1_000 / 2**0.5))


def test_prices_are_those_of_the_run_and_what_is_given_goes_over_them():
    assert rates(Price(2.0, 10.0, 2.5, 4.0, 0.1, "a test")) == Rates(0.05, 1.25, 2.0, 5.0)
    assert rates(Price(2.0, 10.0, 2.5, 4.0, 0.1, "a test"), 0.5).read == 0.5
    assert rates(None) == rates(Price(0.0, 0.0, 0.0, 0.0, 0.0, "free")) == USUAL


@given(st.floats(0.01, 1.0), st.floats(1, 1e5), st.floats(0, 1e4))
def test_cheaper_reads_never_make_phases_shorter(read, step_tokens, index):
    cheap, dear = (phase_steps(Rates(read=price), step_tokens, index) for price in (read / 2, read))
    assert 3 <= dear <= cheap <= MOST


@pytest.mark.parametrize(
    ("seconds", "pays"), [(0.0, False), (10.0, False), (60.0, False), (66.0, False), (70.0, True), (600.0, True)]
)
def test_an_hour_pays_where_pauses_of_five_minutes_are_usual(seconds, pays):
    """At 60 s a step 0.40 pauses an hour are expected, at 70 s 0.71; the longer cache pays from 0.75 / 1.15 = 0.65."""
    assert hour_pays(USUAL, seconds * 7, 7) is pays
    assert not hour_pays(USUAL, inf, 0)


def test_a_request_after_a_pause_reads_at_the_price_of_a_write():
    assert with_pauses(USUAL, 0, 10) is USUAL
    assert with_pauses(USUAL, 5, 10).read == pytest.approx((0.1 + 1.25) / 2)
    assert with_pauses(USUAL, 10, 10).read == pytest.approx(1.25)
    assert with_pauses(USUAL, 0, 0) is USUAL


def test_with_pauses_frames_pay_earlier():
    growth = [700] * 12
    assert frame_advice(USUAL, growth, 0) is None
    paused = frame_advice(with_pauses(USUAL, 6, 12), growth, 0)
    assert paused is not None
    assert paused.least <= paused.phase
