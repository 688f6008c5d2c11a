"""Where a piece of work ends, and what is pruned there."""

import pytest

from stackmem.core.facts import ToolReturned
from tests.build import World, do, play, started
from tests.memory.long_runs import bill, cached, results, worked

LONG = "long " * 1_000
READ = do("read_file", path="spec.md")
WRITE = do("write_file", path="a.py", content="x = 1")
GOOD, BAD = do("run_command", command="good"), do("run_command", command="bad")


def pruned(*replies, spelled="boundary:2000,keep=1"):
    outputs = {"good": ToolReturned("passed", exit_code=0), "bad": ToolReturned("failed", failed=True, exit_code=1)}
    world = World({"spec.md": LONG}, outputs)
    return [text.startswith("[pruned") for text in results(play(*replies, start=started(spelled), world=world).view)]


def test_a_command_that_succeeds_after_a_write_prunes_what_was_long():
    assert pruned(READ, WRITE, GOOD) == [True, False, False]


@pytest.mark.parametrize("replies", [(READ, WRITE, BAD), (READ, GOOD), (READ, WRITE, READ), (READ, READ, READ)])
def test_without_both_there_is_no_boundary(replies):
    assert not any(pruned(*replies))


def test_a_write_that_failed_is_none():
    world_less = do("write_file", path="a.py")
    assert not any(pruned(READ, world_less, GOOD))


def test_after_many_steps_any_successful_command_is_a_boundary():
    assert pruned(READ, GOOD, GOOD, GOOD, spelled="boundary:2000,keep=1,steps=4") == [True, False, False, False]
    assert not any(pruned(READ, GOOD, GOOD, spelled="boundary:2000,keep=1,steps=4"))


def test_the_last_results_stay_at_a_boundary_and_go_at_the_next():
    assert pruned(WRITE, READ, GOOD, spelled="boundary:2000,keep=2") == [False, False, False]
    assert pruned(WRITE, READ, GOOD, WRITE, GOOD, spelled="boundary:2000,keep=2")[1]


def test_a_result_that_is_not_long_stays():
    world = World({"spec.md": "x" * 2_000})
    texts = results(play(READ, WRITE, GOOD, start=started("boundary:2000,keep=1"), world=world).view)
    assert texts[0] == "x" * 2_000


def test_pruning_waits_if_it_removes_less_than_it_rewrites():
    chatter = [do("write_file", path="b", content="y" * 3_000) for _ in range(2)]
    assert not any(pruned(READ, *chatter, GOOD))


def test_pruning_at_boundaries_costs_less_than_never_pruning():
    def bill_of(spelled):
        replies = [READ, WRITE, GOOD] * 12
        outputs = {"good": ToolReturned("passed", exit_code=0)}
        return bill(cached(play(*replies, start=started(spelled), world=World({"spec.md": LONG}, outputs))))

    assert bill_of("boundary:2000,keep=1") < bill_of("full")


def test_a_run_without_long_results_is_never_broken():
    assert [one.broken for one in cached(worked("boundary", 60, 300))][1:] == [""] * 60
