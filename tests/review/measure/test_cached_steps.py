"""The simulator on recorded runs: when requests were sent, and their prompts."""

from msgspec.structs import replace

from stackmem.core.facts import RunEnded, RunForked, RunResumed, RunStarted
from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.review.measure.cached_steps import CachedStep, bill, cached_steps, with_prompts
from stackmem.review.measure.first_loss import first_loss
from stackmem.review.measure.moments import moments
from stackmem.review.measure.prefix import text_of
from tests.build import PRICE, alloc, failed, play, pop, push, started

from .runs import seen


def found(events, times=None) -> list[CachedStep]:
    timed = seen(events) if times is None else moments(zip(times, events, strict=True))
    return list(cached_steps(timed, 512, lambda block: len(text_of(block))))


def test_every_reply_has_its_step_and_keeps_its_length():
    played = play(alloc("a"), failed(), push(), pop(), pop())
    steps = found(played)
    assert [(one.step, one.frame) for one in steps] == [
        (1, "frame-0"), (2, "frame-0"), (3, "frame-1"), (4, "frame-0"),
    ]  # fmt: skip
    assert {one.usage.output for one in steps} == {20}
    assert {one.recorded for one in steps} == {Usage(uncached=100, output=20)}


def test_every_token_of_a_prompt_is_in_one_class():
    played = play(alloc("a"), push(), pop(), pop())
    for one, asked in zip(found(played), played.asked, strict=False):
        view = asked.view
        chars = len(view.system) + sum(len(f"{tool.name}\n{tool.description}\n{tool.schema}") for tool in view.tools)
        assert one.usage.prompt > chars
        assert one.cached.usage(20) == one.usage


def test_a_bill_is_rounded_to_a_millionth_of_a_dollar():
    steps = found(play(alloc("a"), pop()).events)
    price = replace(PRICE, input=0.3333, output=0.7777, cache_read=0.0333, cache_write_5m=0.4166)
    whole = sum(cost_usd(step.usage, price) for step in steps)
    bare = sum(cost_usd(Usage(uncached=step.usage.prompt, output=step.usage.output), price) for step in steps)
    told = bill(steps, price)
    assert (told.usd, told.usd_without_cache) == (round(whole, 6), round(bare, 6))
    assert round(whole, 7) != round(whole, 6)
    assert round(bare, 7) != round(bare, 6)


def test_a_prompt_is_the_sent_one_or_marked_as_different():
    played = play(alloc("a"), pop())
    assert [one.sent for one in found(played)] == [True, True]
    other = [
        replace(event, task="Another task.") if isinstance(event, RunStarted) else event for event in played.events
    ]
    assert [one.sent for one in found(other)] == [False, False]


def test_prompts_that_were_rendered_before_are_not_rendered_again():
    """A ranking strategy takes longer to render than everything that is measured about it."""
    played = play(alloc("a"), push(), pop(), pop())
    rendered = list(with_prompts(seen(played)))
    assert [moment.view for moment in rendered if moment.view] == [asked.view for asked in played.asked]
    for moment, again in zip(rendered, with_prompts(rendered), strict=True):
        assert again is moment
    assert list(cached_steps(rendered, 512, lambda block: len(text_of(block)))) == found(played)
    assert first_loss(rendered) == first_loss(seen(played))


def test_a_request_after_a_failure_is_sent_when_its_wait_is_over():
    played = play(alloc("a"), failed(retry_after_seconds=20.0), pop())
    assert played.kinds == [
        "RunStarted", "ModelReplied", "ChunkAllocated", "ModelFailed", "ModelReplied", "FramePopped", "RunEnded",
    ]  # fmt: skip
    soon, late = ([0.0, 1.0, 1.0, failure, 400.0, 400.0, 400.0] for failure in (279.0, 281.0))
    assert [one.cached.broken for one in found(played.events, soon)] == ["first request", ""]
    assert [one.cached.broken for one in found(played.events, late)] == ["first request", "expired"]


def test_a_run_that_lay_dead_for_ten_minutes_pays_again():
    played = play(alloc("a"), pop())
    at = played.kinds.index("ChunkAllocated") + 1
    resumed = RunResumed(started().limits, "bubblewrap", "0")
    events = [*played.events[:at], RunEnded("interrupted", ""), resumed, *played.events[at:]]
    times = [0.0, 1.0, 1.0, 1.0, 700.0, 701.0, 701.0, 701.0]
    assert [one.cached.broken for one in found(events, times)] == ["first request", "expired"]


def test_a_fork_is_rendered_by_the_strategy_it_goes_on_with():
    played = play(alloc("a"))
    start = started("stackheap:index=system")
    fork = RunForked("parent", len(played.events), "", start)
    rest = play(alloc("a"), alloc("b"), pop()).events[len(played.events) :]
    steps = found([*played.events, fork, *rest])
    assert steps[-1].cached.broken == "system changed"


def test_a_run_without_a_reply_has_no_steps():
    assert found(play()) == []
    assert found(play(failed("authentication"))) == []
