"""Common behavior of every conversation whose old part is cut."""

from itertools import pairwise

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.log import Log
from stackmem.core.messages import Text, Thinking, ToolCall
from stackmem.core.state import Notice, Registers, Reply
from stackmem.memory import open_strategy
from tests.build import alloc, call, do, play, push, reply, settled, shown_text, started
from tests.memory.long_runs import commands, head, results, whole, worked
from tests.spellings import SHORT

LINEAR = sorted({*SHORT, *(spelled.partition(":")[0] for spelled in SHORT)})


@pytest.mark.parametrize("spelled", LINEAR)
def test_the_system_prompt_the_tools_and_the_task_have_the_same_bytes_in_every_request_of_the_work(spelled):
    played = worked(spelled, 12, 600)
    heads = {
        json.encode((asked.view.system, asked.view.tools, asked.view.messages[0].parts[:2])) for asked in played.asked
    }
    assert len(heads) == 1


@pytest.mark.parametrize("spelled", LINEAR)
def test_thinking_is_sent_back_only_behind_the_prompt_that_it_answered(spelled):
    """A provider may refuse thinking after the text before it has changed."""
    thoughts = [Thinking({"type": "thinking", "thinking": f"thought {n}", "signature": "s"}) for n in range(12)]
    replies = [reply(thought, call("list_files")) for thought in thoughts]
    prompts = [settled(asked.view).messages for asked in play(*replies, start=started(spelled)).asked]
    for number, messages in enumerate(prompts):
        for at, message in enumerate(messages):
            for part in message.parts:
                if isinstance(part, Thinking):
                    answered = prompts[thoughts.index(part)]
                    assert (number, list(messages[:at])) == (number, list(answered))


def test_thinking_is_sent_back_until_results_are_shortened():
    thought = Thinking({"type": "thinking", "thinking": "a thought", "signature": "s"})
    played = play(*[reply(thought, call("list_files"))] * 6, start=started("mask:3,poll=2"))
    sent = [
        sum(isinstance(part, Thinking) for message in asked.view.messages for part in message.parts)
        for asked in played.asked
    ]
    assert sent == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("spelled", LINEAR)
def test_a_state_that_is_rendered_late_shows_what_it_showed_then(spelled):
    """Values cached for a later state do not leak into it."""
    played = worked(spelled, 12, 600)
    later = [asked.view for asked in worked(spelled, 12, 600).asked]
    for asked, again in zip(reversed(played.asked), reversed(later), strict=True):
        assert settled(asked.view).digest == again.digest


@pytest.mark.parametrize("spelled", ["window:1,step=1", "truncate:1", "rag:1", "summary:1,keep=1", "hierarchical:1,1"])
def test_the_last_result_stays_also_when_replies_without_a_call_follow_it(spelled):
    asked, world = commands(3)
    played = play(*asked, reply("hm"), reply("hm"), start=started(spelled), world=world)
    assert 3 in whole(played.view)


def test_messages_before_the_first_reply_stay_at_the_head():
    played = worked("window:1,step=1", 4, limits=Limits(steps=6))
    early = worked("window:1,step=1", 1, limits=Limits(steps=3))
    assert "Only 3 of 3 steps are left" in head(early.asked[0].view)
    assert "Only 3 of 3 steps are left" in shown_text(early.view)
    assert "Only 3 of 6 steps are left" in shown_text(played.asked[3].view)


def test_a_frame_that_a_fork_brought_along_shows_what_it_was_pushed_for():
    framed = play(alloc("a"), push(objective="Do the part.", context="In src."), start=started("stackheap"))
    text = shown_text(open_strategy("window").render(framed.state))
    assert "TASK\nDo the part.\nREPORT\nWhat was done\nCONTEXT\nIn src." in text
    assert "Build a calculator" not in text.split("RUN\n")[1]


def test_two_replies_in_a_row_are_kept_apart():
    frame = worked("window", 1).state.running
    doubled = Log([*frame.turns, Reply((Text("one"),), "end", 2), Reply((Text("two"),), "end", 3)])
    state = worked("window", 1).state
    odd = replace(state, stack=(replace(frame, turns=doubled.append(Notice("go on", frame.opened))),))
    view = open_strategy("window").render(odd)
    assert [message.role for message in view.messages] == ["user", "assistant"] * 3 + ["user"]
    assert "(no answer)" in shown_text(view)


def test_a_frame_without_registers_or_task_is_shown_all_the_same():
    state = worked("window", 0).state
    bare = replace(state.running, depth=1, registers=Registers("", ""), task="")
    assert open_strategy("window").render(replace(state, stack=(bare,))).messages[0].parts[1].text.strip() == "TASK"


@pytest.mark.parametrize("spelled", ["mask", "summary", "rag", "clear", "hierarchical"])
def test_huge_and_odd_arguments_are_shown_as_they_came(spelled):
    odd = reply(ToolCall("", "run_command", None, '{"command": ' + "x" * 50_000))
    played = play(odd, do("run_command", command="🙂" * 10_000), start=started(spelled))
    assert played.asked[-1].view.messages[1].parts[0].malformed.endswith("xxx")


def test_borders_only_move_forward():
    for spelled in ("window:3,step=2", "mask:2,poll=3", "hierarchical:1,2", "truncate:300"):
        first = [min(whole(asked.view, 600), default=0) for asked in worked(spelled, 30, 600).asked]
        assert all(before <= after for before, after in pairwise(first))


@pytest.mark.parametrize("spelled", ["mask", "clear", "notes", "full", "stackheap"])
def test_a_summary_that_another_strategy_had_written_hides_nothing_from_one_that_shows_none(spelled):
    summed = worked("summary:8000,keep=2", 20, 1_000).state
    assert len(results(open_strategy(spelled).render(summed))) == 20
    other = open_strategy("rolling_summary:20").render(summed)
    assert "SUMMARY of the steps" in head(other)
    assert len(results(other)) < 20
