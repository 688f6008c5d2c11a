"""Tests for hot, warm and cold turns."""

from stackmem.core.budgets import Limits
from tests.build import play, shown_text, started
from tests.memory.long_runs import commands, compactions, head, output, results, whole, worked


def tiers(view):
    """Return how many turns are shown in full and how many compactly."""
    hot = len(whole(view, 1_000))
    return hot, len(results(view)) - hot


def test_hot_turns_turn_warm_in_steps_and_warm_ones_cold():
    played = worked("hierarchical:2,4", 16, 1_000)
    assert [tiers(asked.view) for asked in played.asked] == [
        (0, 0), (1, 0), (2, 0), (3, 0), (2, 2), (3, 2), (2, 4), (3, 4), (2, 6), (3, 6), (2, 4), (3, 4), (2, 6), (3, 6),
        (2, 4), (3, 4), (2, 6),
    ]  # fmt: skip
    assert [effect.up_to_step for effect in compactions(played)] == [4, 8]


def test_a_warm_result_keeps_head_and_tail():
    text = results(worked("hierarchical:1,4", 3, 1_000).view)[0]
    assert text.startswith("output 1 xxx")
    assert text.endswith("xxx")
    assert "of 1,000 characters left out" in text
    assert len(text) <= 400


def test_the_summary_is_written_from_the_turns_as_they_were_recorded():
    effect = compactions(worked("hierarchical:2,4", 16, 1_000))[0]
    text = shown_text(effect.ask.view)
    assert all(output(number, 1_000) in text for number in range(1, 5))
    assert effect.ask.view.messages[-1].parts[-1].text.startswith("COMPACTION REQUEST (kind: tier; at most 8000 ")


def test_the_summary_stands_before_the_warm_turns():
    view = worked("hierarchical:2,4", 16, 1_000).view
    assert head(view) == "SUMMARY of the steps up to 8, which are no longer shown:\na summary"


def test_a_small_window_is_never_filled():
    asked, world = commands(30, 9_000)
    played = play(*asked, start=started("hierarchical", window_tokens=32_000, limits=Limits(steps=None)), world=world)
    assert played.state.end is None
    assert len(played.asked) == 31
    assert all(len(shown_text(asked.view)) / 2.5 < 0.8 * 32_000 for asked in played.asked)
