"""Tests for frames as rows."""

from stackmem.core.messages import Usage
from stackmem.review.measure.frames import frames
from tests.build import PRICE, alloc, failed, play, pop, push, started

from .runs import seen


def rows(*replies, **more):
    return frames(seen(play(*replies, **more)))


def test_a_run_without_events_has_no_frames():
    assert frames([]) == ()


def test_a_run_that_only_began_has_its_root():
    (root,) = rows()
    assert (root.id, root.parent, root.steps, root.outcome) == ("frame-0", "", 0, "open")
    assert root.last_step < root.first_step


def test_a_frame_spans_the_steps_of_its_children_but_counts_its_own():
    found = rows(alloc("a"), push(name="outer"), push(name="inner"), alloc("b"), pop("in"), pop("out"), pop("all"))
    assert [(row.name, row.parent, row.first_step, row.last_step, row.steps) for row in found] == [
        ("root", "", 1, 7, 3), ("outer", "frame-0", 3, 6, 2), ("inner", "frame-1", 4, 5, 2),
    ]  # fmt: skip
    assert [row.result for row in found] == ["all", "out", "in"]
    assert {row.outcome for row in found} == {"popped"}


def test_the_steps_tokens_and_cost_of_all_frames_are_those_of_the_run():
    played = play(alloc("a"), push(), alloc("b"), pop(), push(), pop(), pop(), start=started(price=PRICE))
    found = frames(seen(played))
    assert sum(row.steps for row in found) == played.state.step
    total = Usage()
    for row in found:
        total += row.usage
    assert total == played.state.usage
    assert abs(sum(row.usd or 0.0 for row in found) - played.state.usd) < 1e-12


def test_a_frame_popped_by_the_harness_says_why():
    assert rows(push(verify="make test"), failed("window"))[1].outcome == "forced: window"
    assert rows(push(verify="make test"), failed("window"))[1].verified == "not verified"


def test_a_frame_that_is_open_lasts_until_the_last_reply():
    found = rows(push(), alloc("a"))
    assert [(row.outcome, row.last_step) for row in found] == [("open", 2), ("open", 2)]
    assert found[0].seconds > found[1].seconds > 0


def test_a_frames_row_contains_its_verdict():
    assert rows(push(verify="make test"), pop())[1].verified == "exit 0"
