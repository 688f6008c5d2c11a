"""Tests for a running summary."""

from stackmem.core.budgets import Limits
from tests.build import play, started
from tests.memory.long_runs import cached, commands, compactions, head, whole, worked


def test_between_n_and_two_n_turns_are_whole_and_every_n_turns_there_is_an_update():
    played = worked("rolling_summary:3", 14)
    assert [effect.up_to_step for effect in compactions(played)] == [3, 6, 9]
    assert [len(whole(asked.view)) for asked in played.asked] == [0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5]


def test_the_newest_summary_alone_stands_at_the_head():
    view = worked("rolling_summary:3", 14).view
    assert head(view) == "SUMMARY of the steps up to 9, which are no longer shown:\na summary"


def test_an_update_is_asked_for_in_the_conversation_itself():
    played = worked("rolling_summary:3", 14)
    text = compactions(played)[1].ask.view.messages[-1].parts[-1].text
    assert text.startswith("COMPACTION REQUEST (kind: rolling; at most 6000 characters)")
    assert head(compactions(played)[1].ask.view).startswith("SUMMARY of the steps up to 3")


def test_an_update_reads_what_the_step_before_it_left_in_the_cache():
    """After an update, every conversation is new behind the task; the request for the next update is not."""
    found = cached(worked("rolling_summary:5", 40))
    assert sum(one.broken != "" for one in found[1:]) == 7


def test_results_that_would_fill_the_window_bring_the_update_forward():
    asked, world = commands(12, 10_000)
    played = play(
        *asked, start=started("rolling_summary:5", window_tokens=32_000, limits=Limits(steps=None)), world=world
    )
    assert compactions(played)[0].up_to_step < 5
    assert played.state.end is None
    assert len(played.asked) == 13
