"""``self_compact``: the model decides when its conversation is replaced by its own summary."""

from itertools import pairwise

from stackmem.core.budgets import Limits
from stackmem.core.facts import CallAnswered, CallRejected
from stackmem.core.messages import Text
from stackmem.lab.strategies.self_compact import CHECK
from tests.build import call, do, play, reply, shown_text, started
from tests.memory.long_runs import bill, cached, commands, compactions, head, results, whole, worked

FREE = Limits(steps=None)
CHARS = 1_000


def compacted(spelled: str, turns: int, *at: int, chars: int = CHARS):
    """A run with one command per step. After each step of ``at`` the model compacts."""
    asked, world = commands(turns, chars)
    replies = []
    for number, command in enumerate(asked, 1):
        replies.append(command)
        if number in at:
            replies.append(do("compact_context", summary=f"done up to {number}; a.b = {number}"))
    return play(*replies, start=started(spelled, limits=FREE), world=world)


def checks(view) -> list[str]:
    """Return the lines of a prompt that ask for a check."""
    texts = [part.text for message in view.messages for part in message.parts if isinstance(part, Text)]
    return [text for text in texts if text.startswith(CHECK)]


def test_a_call_leaves_the_task_the_call_and_what_follows():
    run = compacted("self_compact", 6, 4)
    assert whole(run.view, CHARS) == [5, 6]
    assert shown_text(run.view).count("done up to 4; a.b = 4") == 1
    assert results(run.view)[0].startswith("compacted; ")
    assert [message.role for message in run.view.messages] == ["user", *["assistant", "user"] * 3]
    assert head(run.view) == "", "the summary is in the call"


def test_after_a_call_the_prompt_only_grows_until_the_next_one():
    prompts = [asked.view.messages for asked in compacted("self_compact:9000", 12, 4).asked][5:]
    for before, after in pairwise(prompts):
        assert list(after)[: len(before)] == list(before)


def test_the_next_call_replaces_the_summary_of_the_last_one():
    run = compacted("self_compact", 9, 3, 7)
    assert whole(run.view, CHARS) == [8, 9]
    assert "done up to 3" not in shown_text(run.view)
    assert "done up to 7" in shown_text(run.view)


def test_a_refused_call_replaces_nothing():
    asked, world = commands(3, CHARS)
    for text, reason in (("  ", "summary is empty"), ("x" * 16_001, "has 16,001 characters, maximum is 16,000")):
        run = play(*asked, do("compact_context", summary=text), start=started("self_compact", limits=FREE), world=world)
        assert reason in run.of(CallRejected)[0].reason
        assert whole(run.view, CHARS) == [1, 2, 3]
    fits = play(
        *asked, do("compact_context", summary="x" * 16_000), start=started("self_compact", limits=FREE), world=world
    )
    assert [event.tool for event in fits.of(CallAnswered)] == ["compact_context"]
    assert whole(fits.view, CHARS) == []


def test_a_long_prompt_asks_for_a_check_every_few_steps_and_keeps_no_older_one():
    run = worked("self_compact:8000,every=3", 30, CHARS)
    asking = [asked.step for asked in run.asked if checks(asked.view)]
    assert asking
    assert {after - before for before, after in pairwise(asking)} == {3}
    for asked in run.asked:
        size = sum(len(line) for line in checks(asked.view))
        assert len(checks(asked.view)) <= 1
        assert not size or asked.view.messages[-1].parts[-1].text.startswith(CHECK)
    first = next(asked.view for asked in run.asked if asked.step == asking[0])
    assert len(shown_text(first)) / 2.5 > 7_000
    after = worked("self_compact:8000,every=3", asking[0], CHARS)
    assert not checks(after.view), "the next prompt leaves it out"


def test_no_check_stands_before_a_cache_breakpoint():
    for asked in worked("self_compact:8000,every=1", 30, CHARS).asked:
        for point in asked.view.breakpoints:
            if point.message >= 0:
                parts = asked.view.messages[point.message].parts[: point.part + 1]
                assert not any(isinstance(part, Text) and part.text.startswith(CHECK) for part in parts)


def test_a_short_prompt_asks_for_no_check():
    assert not any(checks(asked.view) for asked in worked("self_compact", 30).asked)


def test_a_model_that_never_compacts_is_asked_for_a_summary_at_three_tenths_of_the_window():
    run = worked("self_compact:8000", 40, CHARS, window_tokens=40_000)
    assert compactions(run), "the backstop"
    assert all(len(shown_text(asked.view)) / 2.5 < 0.3 * 40_000 + 500 for asked in run.asked)
    assert "SUMMARY of the steps up to " in head(run.view)
    without = worked("self_compact:8000", 40, CHARS, window_tokens=1_000_000)
    assert not compactions(without)


def test_a_call_after_the_requested_summary_replaces_that_too():
    asked, world = commands(40, CHARS)
    replies = [*asked, do("compact_context", summary="my own"), do("run_command", command="command 1")]
    run = play(*replies, start=started("self_compact:8000", limits=FREE, window_tokens=40_000), world=world)
    assert compactions(run)
    assert head(run.view) == ""
    assert "my own" in shown_text(run.view)
    assert whole(run.view, CHARS) == [1]


def test_a_text_that_names_the_tool_compacts_nothing():
    asked, world = commands(2, CHARS)
    said = reply("compact_context(summary='all done')", call("run_command", command="command 2"))
    run = play(asked[0], said, start=started("self_compact", limits=FREE), world=world)
    assert whole(run.view, CHARS) == [1, 2]


def test_compacting_costs_less_than_the_whole_history():
    run = compacted("self_compact:8000,every=5", 150, *range(20, 150, 20))
    assert bill(cached(run)) < bill(cached(worked("full", 150, CHARS)))
