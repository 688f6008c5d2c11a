"""Limits of a run, frame constraints, the window, and the ways a run ends."""

import pytest

from stackmem.core.budgets import Limits
from stackmem.core.facts import CallRejected, ChecksReturned, FramePopped, NoticeGiven, RunEnded
from stackmem.core.limits import constraint
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.requests import ReadClock, RunChecks
from stackmem.core.state import State
from tests.build import (
    PRICE,
    World,
    alloc,
    call,
    do,
    failed,
    play,
    pop,
    push,
    reply,
    shown_text,
    started,
)  # fmt: skip

WORK = [do("list_files") for _ in range(400)]


def test_the_cost_of_a_run_without_a_price_is_unknown_from_its_start_on():
    assert evolve(State(), started(price=None)).cost_usd is None
    assert evolve(State(), started(price=PRICE)).cost_usd == 0


def within(**limits):
    return started(limits=Limits(**{"steps": None} | limits))


def costing(tokens, *parts):
    return reply(*(parts or (call("list_files"),)), usage=Usage(uncached=tokens))


def test_the_default_is_200_steps():
    assert play(*WORK).state.step == 200


def test_a_run_is_warned_once_three_steps_before_the_step_limit():
    played = play(*WORK, start=within(steps=10))
    (notice,) = played.of(NoticeGiven)
    assert "Only 3 of 10 steps are left" in notice.text
    before = played.events[: played.events.index(notice)]
    assert sum(type(event).__name__ == "ModelReplied" for event in before) == 7
    assert played.state.step == 10
    assert played.state.end.ending == "limit:steps"


def test_the_parent_gets_the_same_warning_as_its_child():
    played = play(push(), do("list_files"), pop(), do("list_files"), start=within(steps=5))
    assert [event.text.split(" are")[0] for event in played.of(NoticeGiven)] == [
        "Only 3 of 5 steps", "Only 2 of 5 steps",
    ]  # fmt: skip


def test_the_last_step_may_pop():
    played = play(do("list_files"), pop(), start=within(steps=2))
    assert played.state.outcome == "finished"


@pytest.mark.parametrize(
    ("limits", "replies", "word", "ending"),
    [
        ({"tokens": 1_000}, [costing(850), costing(200)], "150 of 1,000 tokens", "limit:tokens"),
        ({"usd": 1.0}, [costing(900_000), costing(200_000)], "0.10 of 1.00 USD", "limit:usd"),
    ],
)
def test_a_run_is_warned_at_85_percent_and_ends_at_its_limit(limits, replies, word, ending):
    start = started(limits=Limits(steps=None, **limits), price=PRICE, window_tokens=10_000_000)
    told = play(replies[0], start=start)
    assert word in shown_text(told.view)
    assert told.state.end is None
    ended = play(*replies, start=start)
    assert ended.state.end.ending == ending
    assert ended.state.outcome == ending


def test_there_is_no_warning_below_85_percent():
    assert not play(costing(849), start=within(tokens=1_000)).of(NoticeGiven)


def test_cached_tokens_count_as_prompt_tokens():
    spent = reply(call("list_files"), usage=Usage(100, 200, 300, 300, 100))
    assert play(spent, start=within(tokens=1_000)).state.end.ending == "limit:tokens"


def test_the_cost_limit_does_not_apply_if_the_price_is_unknown():
    start = started(limits=Limits(steps=None, usd=0.01))
    assert play(costing(100_000), start=start).state.end is None


def test_the_wall_clock_is_read_before_each_request_and_ends_the_run():
    played = play(*WORK, world=World(tick_seconds=30.0), start=within(seconds=100.0))
    assert played.state.end.ending == "limit:seconds"
    assert played.effects.count(ReadClock()) == 4
    assert "10 of 100 seconds" in played.of(NoticeGiven)[0].text


def test_the_clock_is_read_again_before_a_failed_request_is_asked_again():
    played = play(failed(), failed(), world=World(tick_seconds=40.0), start=within(seconds=100.0))
    assert played.state.end.ending == "limit:seconds"


def test_a_limit_that_comes_near_between_two_attempts_changes_no_byte_of_what_is_asked_again():
    played = play(failed(), failed(), world=World(tick_seconds=30.0), start=within(seconds=100.0))
    assert played.state.seconds == 90.0
    assert len({asked.view.digest for asked in played.asked}) == 1


def test_a_wait_that_would_outlast_the_run_ends_it_at_once():
    long = play(failed(retry_after_seconds=50.0), world=World(tick_seconds=30.0), start=within(seconds=100.0))
    assert (long.state.end.ending, len(long.asked)) == ("limit:seconds", 1)
    short = play(failed(retry_after_seconds=30.0), world=World(tick_seconds=30.0), start=within(seconds=100.0))
    assert (short.state.end, short.asked[-1].wait_seconds) == (None, 30.0)


def test_a_clock_that_goes_back_takes_nothing_back():
    played = play(*WORK[:2], world=World(seconds=50.0, tick_seconds=-10.0), start=within(seconds=100.0))
    assert played.state.seconds == 40.0


def test_a_run_that_ends_by_a_limit_keeps_its_partial_result():
    replies = (push(name="a"), pop("A is built."), push(name="b"), reply("half of b", call("list_files")), *WORK)
    played = play(*replies[:4], start=within(steps=4))
    assert played.state.end.ending == "limit:steps"
    for kept in ("A is built.", "frame 'b' is open", "half of b"):
        assert kept in played.state.end.result


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("steps=20 tokens=30k seconds=120", Limits(20, 30_000, None, 120)),
        ("tokens=2M, steps=3;seconds=1", Limits(3, 2_000_000, None, 1)),
        ("please use steps=5 at most", Limits(5)),
        ("", Limits(None)),
        ("twenty steps", Limits(None)),
        ("steps = 20", Limits(None)),
        ("substeps=20", Limits(None)),
        ("steps=20x", Limits(None)),
        ("steps=-1", Limits(None)),
        ("tokens=1.5k", Limits(None)),
        ("tokens=30,000 steps=4", Limits(4)),
        ("usd=3", Limits(None)),
        ("steps=" + "9" * 90, Limits(None)),
    ],
)
def test_only_the_stated_form_of_a_constraint_is_enforced(text, limits):
    assert constraint(text) == limits


def test_a_constraint_without_a_limit_is_shown_but_not_enforced():
    played = play(push(constraint="be quick"), *WORK[:50])
    assert "R3 CONSTRAINT: be quick" in shown_text(played.view)
    assert not played.of(CallRejected)


@pytest.mark.parametrize(
    ("text", "spent"),
    [("steps=2", "2 of 2 steps"), ("tokens=1001", "1,120 of 1,001 tokens"), ("seconds=8", "8 of 8 seconds")],
)
def test_a_spent_constraint_refuses_every_tool_but_pop_and_the_heap_tools_with_that_reason(text, spent):
    used = [costing(500), costing(500)]
    blocked = [do("read_file", path="a"), do("write_file", path="a", content="b"), do("run_command", command="c")]
    for tool in [*blocked, do("list_files"), push()]:
        world = World(tick_seconds=4.0)
        played = play(push(constraint=text), *used, tool, world=world)
        (refusal,) = played.of(CallRejected)
        assert refusal.code == "constraint"
        assert "the constraint of this frame is spent" in refusal.reason
        assert spent in refusal.reason
        assert "only pop_frame and the heap tools work" in refusal.reason
        assert world.files == {}
    heap = [alloc("x"), do("heap_read", name="x"), do("heap_write", name="x", content="y"), do("heap_free", name="x")]
    played = play(push(constraint=text), *used, *heap, pop(), world=World(tick_seconds=4.0))
    assert not played.of(CallRejected)
    assert played.of(FramePopped)[0].forced == ""


def test_a_frames_steps_and_tokens_include_its_descendants():
    played = play(push(constraint="steps=4", name="outer"), push(), *WORK[:3], do("list_files"))
    (refusal,) = played.of(CallRejected)
    assert "frame 'outer'" in refusal.reason
    assert "4 of 4 steps" in refusal.reason
    tokens = play(push(constraint="tokens=1k"), push(), costing(500), costing(500), do("list_files"))
    assert tokens.of(CallRejected)


def test_a_parents_steps_before_the_push_are_not_the_childs():
    played = play(*WORK[:10], push(constraint="steps=4"), *WORK[:4])
    assert not played.of(CallRejected)


@pytest.mark.parametrize(
    "refused",
    [
        do("list_files"), do("no_such_tool"), do("read_file"), pop(""), alloc("bad name"), do("heap_read", name="gone"),
        reply(call("list_files"), call("list_files")),
    ],
)  # fmt: skip
def test_after_three_further_refused_calls_the_harness_pops_the_frame_with_the_last_replys_text(refused):
    last = reply("my last words", *refused.parts)
    replies = [push(constraint="steps=1", verify="make"), do("list_files"), refused, refused, last]
    played = play(*replies)
    (popped,) = played.of(FramePopped)
    assert (popped.forced, popped.result, popped.verified) == ("constraint", "my last words", "not verified")
    assert "forced: constraint" in played.answer
    assert "[not verified]" in played.answer
    assert played.state.running.id == "frame-0"
    assert not play(*replies[:-1]).of(FramePopped)


def test_a_forced_pop_without_last_words_says_so():
    played = play(push(constraint="steps=0"), *WORK[:3])
    assert "(it left no text)" in played.answer


def test_last_words_are_cut_to_the_results_budget():
    played = play(push(constraint="steps=0"), *WORK[:2], reply("w" * 5_000, call("list_files")))
    (popped,) = played.of(FramePopped)
    assert len(popped.result) == 1_000


def test_a_frame_is_warned_once_at_75_percent_of_the_window_and_closed_at_85():
    start = started(window_tokens=100_000)
    told = play(costing(75_000), costing(80_000), start=start)
    (notice,) = told.of(NoticeGiven)
    assert "fills 75% of the model's window" in notice.text
    assert not told.of(CallRejected)
    closed = play(costing(85_000, call("heap_free", name="x")), do("list_files"), start=started(window_tokens=100_000))
    assert not play(costing(70_000), start=start).of(NoticeGiven)
    assert closed.of(CallRejected)[0].code == "no_chunk"


def test_a_full_window_refuses_all_but_pop_and_the_heap_tools_and_pops_after_three_refusals():
    replies = [push(), *[costing(86_000, f"words {number}", call("list_files")) for number in range(3)]]
    played = play(*replies, start=started(window_tokens=100_000))
    refusals = played.of(CallRejected)
    assert [refusal.code for refusal in refusals] == ["window"] * 3
    assert "85% of the model's window" in refusals[0].reason
    (popped,) = played.of(FramePopped)
    assert (popped.forced, popped.result) == ("window", "words 2")


def test_characters_added_since_the_last_reply_count_towards_the_window():
    world = World({"a": "x" * 60_000})
    start = started(window_tokens=100_000)
    assert play(costing(60_000, call("read_file", path="a")), world=world, start=start).of(NoticeGiven)
    assert not play(costing(60_000), world=world, start=start).of(NoticeGiven)


def test_the_parents_window_is_its_own():
    played = play(push(), costing(80_000), pop(), start=started(window_tokens=100_000))
    assert len(played.of(NoticeGiven)) == 1
    assert played.state.running.context_tokens < 50_000


def test_a_reply_that_the_window_cut_off_pops_the_frame():
    played = play(push(), reply("almost", call("list_files"), stop="window"))
    assert played.of(FramePopped)[0].forced == "window"


def test_notices_of_a_run_without_a_heap_name_only_its_tools():
    start = started("full", window_tokens=100_000, limits=Limits(steps=4))
    played = play(costing(76_000), costing(86_000), *WORK[:1], start=start)
    told = " ".join(event.text for event in played.of(NoticeGiven)) + played.of(CallRejected)[0].reason
    assert "heap" not in told
    assert "pop_frame" in told


@pytest.mark.parametrize(
    ("played", "checked"),
    [
        (play(pop(), start=started(checked=True)), True),
        (play(*[reply("x")] * 3, start=started(checked=True)), True),
        (play(*WORK, start=started(checked=True, limits=Limits(steps=2))), True),
        (play(failed("authentication"), start=started(checked=True)), False),
        (play(pop(), start=started(checked=False)), False),
    ],
    ids=["popped", "stalled", "limit", "model_error", "no checks"],
)
def test_checks_run_after_every_ending_except_a_broken_one(played, checked):
    assert (RunChecks() in played.effects) is checked
    assert played.upcoming is None


@pytest.mark.parametrize("ending", ["interrupted", "workspace_error"])
def test_a_run_ended_from_outside_is_not_checked(ending):
    played = play(do("list_files"), start=started(checked=True))
    state = evolve(played.state, RunEnded(ending, ""))
    assert advance(state, played.strategy) is None
    assert state.outcome == ending


@pytest.mark.parametrize(
    ("checks", "outcome"),
    [
        (ChecksReturned({"reward": 1.0}), "solved"),
        (ChecksReturned({"reward": 1.5, "style": 0.0}), "solved"),
        (ChecksReturned({"reward": 0.99}), "unsolved"),
        (ChecksReturned({"a": 1.0, "b": 1.0}), "solved"),
        (ChecksReturned({"a": 1.0, "b": 0.0}), "unsolved"),
        (ChecksReturned({}), "unsolved"),
        (ChecksReturned({"reward": 1.0}, error="it crashed"), "unsolved"),
        (ChecksReturned({"reward": float("nan")}), "unsolved"),
    ],
)
def test_the_outcome_is_the_checks_and_never_the_models_word(checks, outcome):
    played = play(pop("It is all solved!"), start=started(checked=True), world=World(checks=checks))
    assert played.state.outcome == outcome


def test_a_limit_that_the_checks_pass_is_solved():
    played = play(*WORK, start=started(checked=True, limits=Limits(steps=2)))
    assert (played.state.end.ending, played.state.outcome) == ("limit:steps", "solved")


def test_a_run_in_progress_is_running():
    assert play().state.outcome == "running"


def test_cost_is_usage_times_the_recorded_price():
    usage = Usage(1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)
    price = Price(1.0, 10.0, 1.25, 2.0, 0.1, "made up")
    assert cost_usd(usage, price) == pytest.approx(1.0 + 0.2 + 3.75 + 8.0 + 50.0)
    tiered = Price(1.0, 10.0, 1.25, 2.0, 0.1, "made up", tier_above_tokens=10, tier_factor=2.0)
    assert cost_usd(usage, tiered) == pytest.approx(2 * cost_usd(usage, price))
