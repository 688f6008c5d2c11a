"""Results are cleared once the prompt is long."""

from tests.memory.long_runs import cached, results, whole, worked

STANDING = 2_600  # approximate tokens of system prompt, tools, run constants and task


def tokens(spelled, turns):
    """Return the prompt's estimated size after each step."""
    view = worked(spelled, turns).view
    return sum(map(len, results(view))) / 2.5


def test_below_the_trigger_nothing_is_cleared():
    assert whole(worked("clear", 100, 1_000).view, 1_000) == list(range(1, 101))


def test_at_the_trigger_all_but_the_last_results_are_cleared_in_one_step():
    played = worked("clear:10000,keep=3", 60, 1_000)
    shown = [whole(asked.view, 1_000) for asked in played.asked]
    before = next(place for place, now in enumerate(shown) if now and now[0] > 1)
    assert shown[before - 1] == list(range(1, before))
    assert shown[before] == [before - 2, before - 1, before]
    assert results(played.asked[before].view)[0] == "[cleared: 1,000 characters of output; call again if you need them]"


def test_the_trigger_counts_the_whole_prompt_exactly():
    from stackmem.lab.strategies.results import cleared
    from stackmem.memory.shared.linear import conversation

    played = worked("clear:1000000", 10, 1_000)
    size = conversation(played.state, cleared(10**9, 3), "x").tokens
    at, above = (worked(f"clear:{trigger},keep=1", 10, 1_000) for trigger in (size, size + 1))
    assert whole(at.view, 1_000) == [10]
    assert len(whole(above.view, 1_000)) == 10


def test_a_clearing_that_frees_little_waits():
    """Twenty results of 200 characters are less than a tenth of the trigger."""
    played = worked("clear:3000,keep=1", 20, 100)
    assert len(whole(played.view, 100)) == 20


def test_two_clearings_break_the_prefix_twice_and_the_second_rereads_what_the_first_left():
    found = cached(worked("clear:12000,keep=3", 70, 1_000))
    broken = [place for place, one in enumerate(found) if place and one.broken]
    assert len(broken) == 3
    assert found[broken[1]].read > found[broken[0]].read


def test_every_call_stays_when_results_are_cleared():
    view = worked("clear:10000,keep=3", 60, 1_000).view
    assert len(whole(view, 1_000)) < 60
    assert len(view.messages) == 121
