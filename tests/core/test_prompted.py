"""Sub-agents and branches: a name, a prompt, and the budgets that refuse them."""

import pytest

from stackmem.core.budgets import PROMPT_CHARS, Budgets
from stackmem.core.facts import CallRejected, FramePopped, FramePushed, ProgramFrame, RunEnded, RunResumed
from stackmem.core.machine import advance, evolve
from stackmem.memory import open_strategy
from tests.build import do, play, pop, push, reply, shown_text, started

STARTS = {"isolated": "delegate", "fold": "branch"}


def begin(strategy, **changes):
    given = {"name": "scout", "prompt": "Find the port."} | changes
    return do(STARTS[strategy], **{name: value for name, value in given.items() if value is not ...})


def end(strategy, result="It is 8443."):
    return do("return", result=result) if strategy == "fold" else pop(result)


@pytest.fixture(params=STARTS)
def strategy(request):
    return request.param


def test_a_child_has_its_prompt_for_context_and_no_registers(strategy):
    played = play(begin(strategy), start=started(strategy))
    assert played.of(FramePushed) == [FramePushed("frame-1", "scout", "Find the port.", "", "", "Find the port.")]
    assert "Find the port." in shown_text(played.view)
    assert "HEAP" not in shown_text(played.view)


def test_its_result_comes_back_as_the_result_of_the_call_that_started_it(strategy):
    played = play(begin(strategy), end(strategy), start=started(strategy))
    word = {"isolated": "sub-agent", "fold": "branch"}[strategy]
    assert played.answer == f"{word} 'scout' returned:\nIt is 8443."
    assert len(played.state.stack) == 1


def test_the_root_ends_the_run(strategy):
    played = play(end(strategy, "All done."), start=started(strategy))
    assert played.of(RunEnded) == [RunEnded("popped", "All done.")]


def test_a_prompt_of_the_last_character_allowed_is_accepted_and_one_more_is_refused(strategy):
    fits = play(begin(strategy, prompt="x" * PROMPT_CHARS), start=started(strategy))
    assert len(fits.of(FramePushed)) == 1
    assert len(fits.of(FramePushed)[0].intent) == Budgets().intent_chars
    over = play(begin(strategy, prompt="x" * (PROMPT_CHARS + 1)), start=started(strategy))
    assert over.of(FramePushed) == []
    assert "prompt is 4,001 chars, maximum is 4,000" in over.answer


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"prompt": "  "}, "prompt is empty"),
        ({"prompt": ...}, "prompt is missing"),
        ({"prompt": 3}, "prompt must be a string"),
        ({"name": "a b"}, "is not a valid name"),
        ({"name": ""}, "name is empty"),
        ({"objective": "x"}, "objective is not a parameter"),
    ],
)
def test_an_invalid_start_is_refused_with_the_reason(strategy, changes, told):
    played = play(begin(strategy, **changes), start=started(strategy))
    assert told in played.answer
    assert played.of(FramePushed) == []


def test_one_deeper_than_allowed_is_refused(strategy):
    played = play(*(begin(strategy),) * 3, start=started(strategy, budgets=Budgets(depth=2)))
    assert len(played.of(FramePushed)) == 2
    assert [event.code for event in played.of(CallRejected)] == ["too_deep"]


def test_the_tool_that_ends_a_frame_is_named_in_messages(strategy):
    name = "return" if strategy == "fold" else "pop_frame"
    assert name in play(reply("", stop="refused"), start=started(strategy)).answer
    long = play(end(strategy, "x" * 5_000), start=started(strategy))
    assert long.answer.startswith(f"{name} refused: result is 5000 chars")


def test_a_full_window_tells_how_to_end_and_then_ends_the_frame(strategy):
    full = started(strategy, window_tokens=130)
    played = play(do("list_files"), do("list_files"), do("list_files"), do("list_files"), start=full)
    told = [event.reason for event in played.of(CallRejected)]
    assert told[0].endswith("only return works: return with what you have.") is (strategy == "fold")
    assert [event.forced for event in played.of(FramePopped)] == ["window"]


@pytest.mark.parametrize(("spelled", "call"), [("isolated", begin("isolated")), ("stackheap", push())])
def test_depth_is_counted_from_the_frame_that_a_program_opened(spelled, call):
    state = play(start=started(spelled, budgets=Budgets(depth=1))).state
    work = FramePushed("frame-1", "part", "Do the part.", "", "", "", program=ProgramFrame("work", task="The part."))
    asked = evolve(evolve(state, work), call)
    assert isinstance(advance(asked, open_strategy(spelled)), FramePushed)


def test_a_resumed_run_resets_its_idle_count():
    state = play(*[reply("words only", stop="end")] * 3).state
    assert state.idle
    assert evolve(state, RunResumed(state.limits, "none", "0")).idle == 0
