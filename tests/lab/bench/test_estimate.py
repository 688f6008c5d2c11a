"""Estimates of the remaining cost of a plan."""

import pytest

from stackmem.core.pricing import Price
from stackmem.lab.bench.estimate import CostEstimates, assumed_usd, expected_usd
from stackmem.lab.bench.plan import BenchPlan, TrialSubject, Variant, trials

PRICE = Price(3.0, 15.0, 3.75, 6.0, 0.15, "a test")
PLAN = BenchPlan((TrialSubject("ledger", "ledger", horizon=60, noise=1.0),), ("m",), (Variant("full", "full"),), 1)
(TRIAL,) = trials(PLAN)


def row(cost, **more):
    return {"model": "m", "strategy": "full", "task": "ledger", "horizon": 60, "cost_usd": cost} | more


def test_models_without_a_price_cost_nothing():
    assert expected_usd(TRIAL, None, CostEstimates.of([row(1.0)])) == 0


def test_the_assumption_is_a_hundred_steps_of_the_known_sum():
    (trial,) = trials(BenchPlan((TrialSubject("x", "x", horizon=100, noise=1.0),), ("m",), PLAN.variants))
    written, read, replied = 6_000 + 150_000, 100 * 6_000 + 1_500 * 4_950, 30_000
    assert assumed_usd(trial, PRICE) == pytest.approx((written * 3.75 + read * 0.15 + replied * 15) / 1e6)


def test_finished_trials_of_the_same_cell_count_before_those_that_have_less_in_common():
    rows = [
        row(1.0),
        row(3.0),
        row(10.0, horizon=300),
        row(20.0, strategy="other"),
        row(99.0, model="other"),
        row(None),
    ]
    assert CostEstimates.of(rows).expected(TRIAL) == 2.0
    assert CostEstimates.of(rows[2:]).expected(TRIAL) == 10.0
    assert CostEstimates.of(rows[3:]).expected(TRIAL) == 20.0
    assert CostEstimates.of(rows[4:]).expected(TRIAL) is None


def test_a_trial_costs_no_more_than_its_own_limit():
    assert expected_usd(TRIAL, PRICE, CostEstimates.of([row(50.0)])) == 5.0
    (bound,) = trials(BenchPlan(PLAN.subjects, ("m",), PLAN.variants, settings={"max_usd": 0.5}))
    assert expected_usd(bound, PRICE, CostEstimates.of([row(50.0)])) == 0.5
    (free,) = trials(BenchPlan(PLAN.subjects, ("m",), PLAN.variants, settings={"max_usd": "none"}))
    assert expected_usd(free, PRICE, CostEstimates.of([row(50.0)])) == 50.0
