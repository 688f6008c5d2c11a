"""Tests where the phases of a flat run begin."""

import pytest

from stackmem.review.measure.phases import PhaseRule, beginnings, phases, steps_of

from .foreign import flat

TALK = ["Look.", "Next, the tests.", "Hm.", "Now the fix.", "Hm.", "Hm.", "Hm.", "Done."]


def steps(replies):
    return steps_of(flat(replies))[1]


def test_a_stated_sub_goal_begins_a_phase():
    assert beginnings(steps([(text, "ls", "") for text in TALK]), "sub-goals") == {1, 3}


def test_tests_that_turn_green_end_one_and_tests_that_were_green_do_not():
    runs = ["1 failed", "2 passed", "3 passed", "Traceback (most recent call last)", "4 passed"]
    assert beginnings(steps([("Hm.", "pytest", text) for text in runs]), "green") == {2, 5}


def test_a_phase_is_neither_shorter_nor_longer_than_its_rule_and_the_last_step_is_in_none():
    each = steps([("Now this.", "ls", "")] * 20)
    assert phases(each, PhaseRule("boundaries", 8, 40)) == [range(8), range(8, 16), range(16, 19)]
    silent = steps([("Hm.", "ls", "")] * 20)
    assert phases(silent, PhaseRule("boundaries", 8, 12)) == [range(12), range(12, 19)]
    assert phases(silent, PhaseRule("fixed", 6, 6)) == [range(6), range(6, 12), range(12, 18)]


def test_phases_may_begin_later():
    assert phases(steps([("Hm.", "ls", "")] * 10), PhaseRule("fixed", 4, 4), 3) == [range(3, 7), range(7, 9)]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_run_too_short_has_none(count):
    assert phases(steps([("Hm.", "ls", "")] * count), PhaseRule()) == []
