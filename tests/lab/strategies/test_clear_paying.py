"""Results are cleared once that is likely to save money: by prices, pauses and sizes."""

import pytest
from msgspec import UNSET

from stackmem.core.budgets import Limits
from stackmem.core.messages import Text
from stackmem.memory import open_strategy
from stackmem.memory.shared.break_even import (
    Clearing,
    Rates,
    clearing_risked,
    first_advice,
    frame_tokens,
    looked_tokens,
)
from tests.build import play, started
from tests.memory.long_runs import commands, results, whole, worked

FREE = Limits(steps=None)


def first_clearing(spelled, turns=120, size=4_000):
    """Return the step after which the first results were cleared; None if they never were."""
    for asked in worked(spelled, turns, size).asked:
        if asked.step > 1 and whole(asked.view, size)[0] > 1:
            return asked.step - 1
    return None


def test_a_short_run_is_that_of_full():
    shown, full = worked("clear_paying", 12, 400), worked("full", 12, 400)
    assert [asked.view.messages for asked in shown.asked] == [asked.view.messages for asked in full.asked]


def test_the_cheaper_a_cached_token_the_later_results_are_cleared():
    steps = [first_clearing(f"clear_paying:read={read}") for read in ("0.25", "0.1", "0.05")]
    assert all(steps)
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_the_more_is_looked_up_again_the_later_results_are_cleared():
    steps = [first_clearing(f"clear_paying:again={again}") for again in (0, 50, 100)]
    assert all(steps)
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_the_last_results_stay():
    run = worked("clear_paying:keep=3,read=0.5", 60, 4_000)
    assert whole(run.view, 4_000)[-3:] == [58, 59, 60]
    assert any("[cleared: 4,000 characters of output" in text for text in results(run.view))


def pausing(spelled, seconds, at=30):
    asked, world = commands(at + 5, 4_000)

    class Paused(type(world)):
        def perform(self, effect):
            self.tick_seconds = seconds if self.seconds == at else 1
            return super().perform(effect)

    run = play(*asked[: at + 3], start=started(spelled, limits=FREE), world=Paused(outputs=world.outputs))
    return [whole(each.view, 4_000)[0] for each in run.asked if whole(each.view, 4_000)]


def test_a_pause_that_outlives_the_cache_clears_what_would_be_written_again():
    spelled = "clear_paying:read=0.025"
    assert set(pausing(spelled, 200)) == {1}
    assert pausing(spelled, 400)[-1] > 1


def test_an_hour_of_cache_outlives_a_pause_of_minutes():
    strategy = open_strategy("clear_paying")
    assert strategy.life == "5m"


def test_frames_cost_more_if_the_prompt_and_tools_are_counted():
    ignored, counted = Rates(), Rates(standing=40_000)
    assert frame_tokens(counted, 0) == frame_tokens(ignored, 0) + 2 * 0.1 * 40_000
    assert looked_tokens(counted, [700]) == looked_tokens(ignored, [700]) + 0.1 * 40_000
    assert first_advice(counted, 700, 0).least > first_advice(ignored, 700, 0).least


@pytest.mark.parametrize(
    ("spelled", "recorded", "standing"),
    [
        ("adaptive", UNSET, False), ("adaptive", "paying", True), ("adaptive:standing=counted", UNSET, True),
        ("adaptive:standing=ignored", "paying", False),
    ],
)  # fmt: skip
def test_adaptive_counts_the_prompt_and_tools_if_the_run_or_its_name_says_so(spelled, recorded, standing):
    assert open_strategy(spelled).name == spelled
    small, large = (
        next(
            part.text
            for part in play(start=started(spelled, system="x" * chars, clearing=recorded))
            .asked[0]
            .view.messages[0]
            .parts
            if isinstance(part, Text) and "FRAMES PAY" in part.text
        )
        for chars in (10, 200_000)
    )
    assert (small != large) is standing


@pytest.mark.parametrize(("cost", "risked"), [(45_000, False), (47_000, True)])
def test_clearing_is_risked_only_while_it_costs_a_small_share_of_the_conversation(cost, risked):
    assert clearing_risked(Rates(), Clearing(results=5, freed=3_000, follows=2_000, prompt=8_000), cost) is risked
