"""Each metric on a run made for it."""

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ChecksReturned, RunEnded, RunResumed, ToolReturned, VerifyReturned
from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.review.measure.metrics import METRICS, measure
from stackmem.review.measure.moments import moments
from tests.build import PRICE, World, alloc, do, failed, play, pop, push, reply, started, stored

from .runs import seen

BAD = ToolReturned("exit 1\nno such module", failed=True, exit_code=1)


def of(name: str, *replies, **more):
    return measure(seen(play(*replies, **more)))[name]


def run(text: str):
    return do("run_command", command=text)


def test_a_run_without_events_is_measured_too():
    found = measure([])
    assert list(found) == list(METRICS)
    assert {name for name, value in found.items() if value is None} == {
        "mean_context_tokens", "memory_call_share", "heap_reads_per_write", "never_read_share",
    }  # fmt: skip
    assert all(not value for value in found.values())


def test_every_metric_says_its_unit_and_its_reason():
    for name, metric in METRICS.items():
        assert metric.unit, name
        assert metric.tells.endswith("."), name


def test_failed_requests_are_calls_but_no_steps():
    found = measure(seen(play(failed(), failed(), alloc("a"), pop())))
    assert (found["steps"], found["model_calls"]) == (2, 4)


def test_tokens_are_counted_by_cache_effect():
    usage = Usage(uncached=1, cache_read=2, cache_write_5m=3, cache_write_1h=4, output=5)
    found = measure(seen(play(replace(alloc("a"), usage=usage), replace(pop(), usage=usage))))
    classes = ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    assert [found[f"{name}_tokens"] for name in classes] == [2, 4, 6, 8, 10]
    assert (found["peak_context_tokens"], found["mean_context_tokens"]) == (10, 10.0)


def test_the_cost_is_that_of_each_reply_by_its_price():
    assert of("cost_usd", alloc("a"), pop(), start=started(price=PRICE)) == pytest.approx(
        2 * cost_usd(Usage(uncached=100, output=20), PRICE)
    )
    assert of("cost_usd", alloc("a"), pop()) is None


def test_the_peak_is_the_longest_prompt_and_the_mean_is_per_reply():
    sized = [replace(alloc(name), usage=Usage(uncached=size)) for name, size in (("a", 100), ("b", 400))]
    assert of("peak_context_tokens", *sized) == 400
    assert of("mean_context_tokens", *sized) == 250.0


def test_the_end_of_the_run_is_no_memory_call():
    assert of("memory_call_share", run("true"), pop()) == 0.0
    assert of("memory_call_share", run("true"), push(), pop(), alloc("a"), pop()) == 0.6
    assert of("memory_call_share", reply("no call", stop="end")) is None


def test_a_read_that_shows_again_what_was_shown_is_a_reread():
    world = World(files={"a.py": "one", "./a.py": "one", "b.py": "two"})
    look = do("read_file", path="a.py")
    assert of("rereads", look, do("read_file", path="b.py"), world=world) == 0
    assert of("rereads", look, look, do("read_file", path="./a.py"), world=world) == 2


def test_a_read_after_a_change_or_of_other_lines_is_none():
    look, changed = do("read_file", path="a.py"), do("write_file", path="a.py", content="other")
    assert of("rereads", look, changed, look, world=World(files={"a.py": "one"})) == 0
    lines = do("read_file", path="a.py", start_line=1, end_line=1)
    assert of("rereads", look, lines, world=World(files={"a.py": "one"})) == 0


def test_a_file_that_cannot_be_read_is_not_read_again():
    look = do("read_file", path="gone")
    assert of("rereads", look, look) == 0


def test_a_command_that_failed_in_a_frame_that_is_over_is_rediscovered_once_by_each_later_frame():
    world = World(outputs={"build": BAD})
    first = (push(), run("build"), pop())
    assert of("rediscoveries", *first, world=world) == 0
    assert of("rediscoveries", *first, push(), run("build"), run(" build "), pop(), world=world) == 1
    assert of("rediscoveries", *first, push(), run("build"), pop(), push(), run("build"), pop(), world=world) == 2


def test_trying_again_in_the_same_frame_or_under_one_that_still_knows_is_no_rediscovery():
    world = World(outputs={"build": BAD})
    assert of("rediscoveries", run("build"), run("build"), world=world) == 0
    assert of("rediscoveries", run("build"), push(), run("build"), world=world) == 0


def test_a_command_that_came_to_pass_before_its_frame_ended_is_not_lost():
    played = play(push(), run("build"), run("build"), pop(), push(), run("build"), world=World(outputs={"build": BAD}))
    returned = [place for place, event in enumerate(played.events) if isinstance(event, ToolReturned)]
    played.events[returned[1]] = ToolReturned("exit 0", exit_code=0)
    assert measure(seen(played))["rediscoveries"] == 0


def test_a_fact_that_a_later_frame_looks_up_again_was_lost():
    world = World(files={"a.py": "one"})
    look = do("read_file", path="a.py")
    assert of("found_again", push(), look, pop(), push(), look, look, pop(), world=world) == 1
    assert of("found_again", look, push(), look, pop(), world=world) == 0
    changed = do("write_file", path="a.py", content="other")
    assert of("found_again", push(), look, pop(), changed, push(), look, pop(), world=world) == 0


def test_a_look_that_tells_the_same_again_is_repeated_in_one_frame_or_in_two():
    look, other = do("read_file", path="a.py"), do("read_file", path="b.py")
    files = {"a.py": "one", "b.py": "two"}
    assert of("repeated_looks", look, other, look, push(), other, pop(), world=World(files=files)) == 2
    changed = do("write_file", path="a.py", content="other")
    assert of("repeated_looks", look, changed, look, world=World(files=files)) == 0


def test_a_command_that_fails_as_before_is_repeated_whatever_it_prints_and_a_mended_one_is_not():
    world = World(outputs={"pytest": BAD})
    assert of("repeated_looks", run("pytest"), run("pytest"), world=world) == 1
    assert of("repeated_looks", run("ls"), run("pytest"), world=world) == 0


def test_reads_are_held_against_every_way_of_storing():
    read = do("heap_read", name="a")
    assert of("heap_reads_per_write", alloc("a"), read, read, read) == 3.0
    more = (do("heap_write", name="a", content="new"), push(store=[stored("b"), stored("c")]), pop(store=[stored("d")]))
    assert of("heap_reads_per_write", alloc("a"), *more, read) == 0.2
    assert of("heap_reads_per_write", do("heap_read", name="a")) is None


def test_a_chunk_that_was_freed_unread_was_never_read():
    read, free = do("heap_read", name="a"), do("heap_free", name="a")
    assert of("never_read_share", alloc("a")) == 1.0
    assert of("never_read_share", alloc("a"), read, free) == 0.0
    assert of("never_read_share", alloc("a"), read, free, alloc("a")) == 0.5
    assert of("never_read_share", alloc("a"), free, alloc("a"), read) == 0.5


def test_storing_over_a_chunk_is_no_second_chunk():
    read = do("heap_read", name="a")
    assert of("never_read_share", alloc("a"), read, push(store=[stored("a", "new")]), pop()) == 0.0
    assert of("never_read_share", push(store=[stored("a"), stored("b")]), read, pop()) == 0.5


def test_a_read_is_stale_where_the_source_has_changed_since():
    files = {"a.py": "one"}
    kept, read = alloc("a", source="a.py"), do("heap_read", name="a")
    changed = do("write_file", path="a.py", content="other")
    assert of("stale_reads", kept, read, world=World(files=dict(files))) == 0
    assert of("stale_reads", kept, changed, read, read, world=World(files=dict(files))) == 2


def test_a_pop_whose_verify_fails_said_done_falsely():
    wrong = World(verified=VerifyReturned("exit 1", "two tests fail"))
    verified = push(verify="make test")
    assert of("false_pops", verified, pop(), world=wrong) == 1
    assert of("false_pops", verified, pop()) == 0
    assert of("false_pops", push(), pop()) == 0
    assert of("false_pops", verified, failed("window"), world=wrong) == 0


@pytest.mark.parametrize(
    ("checks", "count"),
    [
        (ChecksReturned({"reward": 0.0}), 1),
        (ChecksReturned({"reward": 1.0}), 0),
        (ChecksReturned({}, error="the checks timed out"), 0),
    ],
)
def test_a_root_that_the_checks_fail_said_done_falsely(checks, count):
    assert of("false_pops", pop(), start=started(checked=True), world=World(checks=checks)) == count


def test_a_run_that_a_limit_ended_said_nothing_of_being_done():
    limited = started(checked=True, limits=replace(started().limits, steps=1))
    wrong = World(checks=ChecksReturned({"reward": 0.0}))
    assert of("false_pops", alloc("a"), start=limited, world=wrong) == 0


def test_the_seconds_of_a_run_are_split_without_rest():
    played = play(failed(), run("true"), push(verify="make test"), pop(), pop(), start=started(checked=True))
    found = measure(seen(played, seconds=0.5))
    parts = [found[f"{who}_seconds"] for who in ("model", "tools", "harness")]
    assert sum(parts) == 0.5 * (len(played.events) - 1)
    assert parts[0] == 0.5 * 5
    assert parts[1] == 0.5 * 3


def test_the_time_a_run_lay_dead_is_not_counted():
    played = play(run("true"))
    resumed = RunResumed(started().limits, "bubblewrap", "0")
    events = [*played.events, RunEnded("interrupted", ""), resumed, *play(run("true")).events[1:]]
    times = [1_000.0, 1_001.0, 1_002.0, 1_003.0, 90_000.0, 90_001.0, 90_002.0]
    found = measure(moments(zip(times, events, strict=True)))
    assert found["model_seconds"] + found["tools_seconds"] + found["harness_seconds"] == 5.0


def test_each_change_to_a_request_or_a_reply_is_a_mending():
    mended = replace(alloc("a"), repairs=("read a number",), mended=("left a tool out", "renamed an id"))
    assert of("mendings", replace(failed(), mended=("left a tool out",)), mended, pop()) == 4
    assert of("mendings", alloc("a"), pop()) == 0
