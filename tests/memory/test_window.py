"""The last N turns, and how rarely the window moves."""

import pytest

from tests.memory.long_runs import bill, cached, head, whole, worked


def test_without_a_turn_there_is_the_task_and_nothing_else():
    view = worked("window", 0).view
    assert len(view.messages) == 1
    assert "TASK\nBuild a calculator" in view.messages[0].parts[1].text
    assert head(view) == ""


@pytest.mark.parametrize("turns", [1, 2, 3, 9])
def test_a_step_of_one_shows_exactly_the_last_turns(turns):
    assert whole(worked("window:3,step=1", turns).view) == list(range(max(1, turns - 2), turns + 1))


def test_a_longer_step_shows_at_least_the_last_turns_and_drops_so_many_at_once():
    first = [whole(asked.view)[:1] for asked in worked("window:4,step=3", 12).asked]
    assert first == [[], *[[1]] * 6, *[[4]] * 3, *[[7]] * 3]


def test_the_default_shows_between_twenty_and_twenty_nine():
    played = worked("window", 60)
    assert {len(whole(asked.view)) for asked in played.asked[20:]} == set(range(20, 30))


def test_the_omission_notice_names_its_last_step():
    assert head(worked("window:2,step=1", 5).view).startswith("[Steps up to 3 are no longer shown.")


def test_a_window_that_moves_in_steps_costs_less_than_one_that_moves_at_every_step():
    slow, fast = (cached(worked(f"window:20,step={step}", 80)) for step in (10, 1))
    assert bill(slow) < bill(fast) / 2
    assert sum(one.broken != "" for one in slow[1:]) == 6
    assert sum(one.broken != "" for one in fast[1:]) == 60


def test_the_task_is_read_from_the_cache_also_when_the_window_moves():
    found = cached(worked("window:20,step=10", 40, task="A long task. " * 100))
    assert all(one.read > 1_300 for one in found[1:])


def test_the_mark_before_the_last_follows_the_conversation_between_two_moves():
    views = [asked.view for asked in worked("window:4,step=3", 12).asked[8:]]
    assert [[point.message for point in view.breakpoints][-2:] for view in views] == [
        [len(view.messages) - 3, len(view.messages) - 1] for view in views
    ]
