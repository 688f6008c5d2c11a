"""The rows of a run: one for each step."""

import pytest
from msgspec.structs import replace

from stackmem.core.facts import FramePopped, ModelFailed, RunEnded, RunResumed
from stackmem.core.messages import Usage
from stackmem.review.measure.moments import moments
from stackmem.review.measure.timeline import TimelineStep, timeline
from tests.build import PRICE, World, alloc, call, do, failed, play, pop, push, reply, started

from .runs import seen


def steps(*replies, **more) -> list[TimelineStep]:
    return list(timeline(seen(play(*replies, **more))))


def test_a_run_without_a_reply_has_no_steps():
    assert steps() == []
    assert steps(failed("authentication")) == []
    assert list(timeline([])) == []


def test_each_reply_is_one_step_in_its_own_frame():
    rows = steps(alloc("a"), push(name="part"), do("heap_read", name="a"), pop(), pop())
    assert [(row.step, row.frame, row.name, row.depth) for row in rows] == [
        (1, "frame-0", "root", 0), (2, "frame-0", "root", 0), (3, "frame-1", "part", 1), (4, "frame-1", "part", 1),
        (5, "frame-0", "root", 0),
    ]  # fmt: skip
    assert [row.tool for row in rows] == ["heap_alloc", "push_frame", "heap_read", "pop_frame", "pop_frame"]
    assert [row.about for row in rows] == ["a", "part", "a", "Done.", "Done."]


def test_a_step_names_the_record_of_its_reply():
    played = play(alloc("a"), pop())
    rows = list(timeline(seen(played)))
    assert [type(played.events[row.record - 1]).__name__ for row in rows] == ["ModelReplied", "ModelReplied"]
    assert [row.at for row in rows] == [1_000.0 + row.record - 1 for row in rows]


@pytest.mark.parametrize(
    ("given", "outcome", "detail"),
    [
        (do("run_command", command="true"), "ok", "exit 0"),
        (do("read_file", path="gone"), "failed", ""),
        (alloc("a"), "ok", ""),
        (push(), "pushed", "frame-1"),
        (push(objective=""), "refused", "push_refused"),
        (do("dance"), "refused", "unknown_tool"),
        (reply("I am thinking.", stop="end"), "nudged", "no_call"),
        (pop(), "popped", ""),
        (reply("Too long.", stop="window"), "forced", "window"),
    ],
)
def test_the_outcome_of_a_step_is_what_its_reply_came_to(given, outcome, detail):
    world = World()
    answered = play(given, world=world)
    row = next(timeline(seen(answered)))
    assert row.outcome == outcome
    assert detail in row.detail or outcome == "ok"


def test_a_reply_whose_call_was_never_answered_is_open():
    played = play(do("run_command", command="sleep 1"))
    cut = played.events[: [type(event).__name__ for event in played.events].index("ModelReplied") + 1]
    ended = RunEnded("interrupted", "")
    assert next(timeline(seen(cut))).outcome == "open"
    assert next(timeline(seen([*cut, ended]))).detail == "interrupted"


def test_a_step_that_is_answered_after_a_resume_is_no_longer_open():
    played = play(do("read_file", path="gone"))
    at = played.kinds.index("ModelReplied") + 1
    resumed = RunResumed(started().limits, "bubblewrap", "0")
    row = next(timeline(seen([*played.events[:at], RunEnded("interrupted", ""), resumed, *played.events[at:]])))
    assert row.outcome == "failed"


def test_a_pop_by_the_harness_belongs_to_no_reply():
    rows = steps(push(), failed("window"), pop())
    assert [row.outcome for row in rows] == ["pushed", "popped"]
    assert rows[1].attempts == 2


def test_failed_attempts_count_for_the_step_they_were_made_for():
    rows = steps(failed(), failed(), alloc("a"), alloc("b"))
    assert [row.attempts for row in rows] == [3, 1]
    assert [row.model_seconds for row in rows] == [3.0, 1.0]


def test_the_context_is_what_was_reported_and_else_the_estimate_of_the_rules():
    reported = replace(alloc("a"), usage=Usage(uncached=10, cache_read=90, cache_write_5m=5, output=7))
    silent = replace(alloc("b"), usage=Usage())
    rows = steps(reported, silent)
    assert rows[0].context_tokens == 105
    assert rows[1].context_tokens == play(reported).state.running.context_tokens > 105


def test_the_full_history_only_grows():
    rows = steps(alloc("a"), push(), do("heap_read", name="a"), pop("x" * 900), alloc("b"), pop())
    history = [row.history_tokens for row in rows]
    assert history == sorted(history)
    assert history[0] == rows[0].context_tokens
    # the reply's 20 tokens, and the text returned to the parent: 900 characters of result with a frame around them
    assert history[4] - history[3] == 20 + int(rows[3].result_chars / 2.5)
    assert rows[3].result_chars > 900


def test_the_cost_is_unknown_where_the_price_is():
    assert steps(alloc("a"))[0].usd is None
    priced = steps(alloc("a"), start=started(price=PRICE))
    assert priced[0].usd == pytest.approx((100 * 1.0 + 20 * 2.0) / 1e6)


def test_time_goes_to_the_model_the_tools_or_the_harness():
    played = play(do("run_command", command="true"))
    row = next(timeline(seen(played, seconds=2.0)))
    assert (row.model_seconds, row.tools_seconds, row.harness_seconds) == (2.0, 2.0, 0.0)


def test_the_time_between_an_end_and_a_resume_is_not_counted():
    played = play(do("read_file", path="gone"))
    at = played.kinds.index("ToolReturned")
    resumed = RunResumed(started().limits, "bubblewrap", "0")
    events = [*played.events[:at], RunEnded("interrupted", ""), resumed, *played.events[at:]]
    times = [1_000.0, 1_001.0, 1_002.0, 90_000.0, 90_001.0]
    row = next(timeline(moments(zip(times, events, strict=True))))
    assert (row.model_seconds, row.tools_seconds, row.harness_seconds) == (1.0, 1.0, 1.0)


def test_a_clock_that_goes_back_takes_no_time_away():
    played = play(alloc("a"))
    row = next(timeline(moments((1_000.0 - number, event) for number, event in enumerate(played.events))))
    assert (row.model_seconds, row.tools_seconds, row.harness_seconds) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("arguments", [None, 7, "text", [], {"name": None}, {"path": {"deep": [1]}}])
def test_arguments_of_any_shape_have_a_row(arguments):
    given = reply(replace(call("read_file"), arguments=arguments))
    assert steps(given)[0].outcome == "refused"


def test_a_calls_summary_is_cut_to_400_characters():
    assert steps(do("run_command", command="x" * 100_000))[0].about == "x" * 400


def test_the_heap_is_the_one_after_the_step():
    rows = steps(alloc("a", "12345"), do("heap_free", name="a"), pop(store=[{"name": "b", "content": "123"}]))
    assert [(row.heap_chars, row.heap_chunks) for row in rows] == [(5, 1), (0, 0), (3, 1)]


def test_every_step_of_a_run_has_a_row_in_order():
    played = play(alloc("a"), push(), push(), pop(), failed(), pop(), pop())
    rows = list(timeline(seen(played)))
    assert [row.step for row in rows] == list(range(1, played.state.step + 1))
    assert sum(row.attempts for row in rows) == played.state.facts
    assert len(played.of(ModelFailed, FramePopped)) == 4
