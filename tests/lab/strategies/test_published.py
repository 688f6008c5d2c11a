"""Strategies named after published systems: each shows what its source describes."""

from types import SimpleNamespace

import pytest

from stackmem.core.budgets import Limits
from stackmem.core.facts import ClockRead
from stackmem.core.messages import Text
from stackmem.memory import open_strategy
from tests.build import call, do, play, reply, shown_text, started
from tests.memory.long_runs import commands, compactions, head, output, results, whole, worked

FREE = Limits(steps=None)


def told(number: int, text: str):
    """A command in a reply that also writes a text."""
    return reply(text, call("run_command", command=f"command {number}"))


def played(spelled: str, *texts: str, chars: int = 200):
    _, world = commands(len(texts), chars)
    replies = [told(number, text) for number, text in enumerate(texts, 1)]
    return play(*replies, start=started(spelled, limits=FREE), world=world)


def test_mem1_shows_the_last_reply_with_its_state_and_its_answer_and_nothing_else():
    run = played("mem1", "STATE\na.b = 1", "STATE\na.b = 1\nc.d = 2", "STATE\ne.f = 3")
    for step, asked in enumerate(run.asked[1:], 1):
        assert whole(asked.view) == [step]
    assert "e.f = 3" in shown_text(run.view)
    assert "c.d" not in shown_text(run.view)
    sizes = [len(shown_text(asked.view)) for asked in worked("mem1", 40).asked]
    assert max(sizes[1:]) - min(sizes[1:]) < 20


def test_mem1_asks_for_a_state_at_the_end_of_each_prompt_and_keeps_that_line_in_none():
    run = played("mem1:500", "STATE\nx", "STATE\ny")
    for asked in run.asked:
        last = asked.view.messages[-1].parts[-1]
        assert isinstance(last, Text)
        assert last.text.startswith("STATE DUE: ")
        assert "at most 500 characters" in last.text
        assert shown_text(asked.view).count("STATE DUE") == 1


def test_agentfold_shows_blocks_at_several_scales_and_the_latest_interaction_whole():
    run = played(
        "agentfold", "I look.", "FOLD 1-1\nfirst told a.b = 1", "FOLD 2\nsecond told c.d = 2",
        "FOLD 1-3\nall: a.b = 1", "on",
    )  # fmt: skip
    texts = [shown_text(asked.view) for asked in run.asked]
    assert [whole(asked.view) for asked in run.asked] == [[], [1], [2], [3], [4], [4, 5]]
    assert "[steps 1 to 1]\nfirst told a.b = 1" in texts[2]
    assert "[steps 1 to 1]\nfirst told a.b = 1\n[steps 2 to 2]\nsecond told c.d = 2" in texts[3]
    assert "[steps 1 to 3]\nall: a.b = 1" in texts[4]
    assert "second told" not in texts[4]
    assert texts[4].count("all: a.b = 1") == 1, "the directive does not appear together with its block"


def test_agentfold_keeps_whole_what_no_reply_folds_and_a_later_fold_takes_it_in():
    run = played("agentfold", "one", "two", "three", "FOLD 3\nof all three")
    assert [whole(asked.view) for asked in run.asked] == [[], [1], [1, 2], [1, 2, 3], [4]]
    assert "[steps 1 to 3]\nof all three" in shown_text(run.view)


@pytest.mark.parametrize("text", ["FOLD 1-1", "FOLD 1-1\n  \n", "a FOLD 1-1\nx", "FOLD one\nx", "FOLD 99999999999\nx"])
def test_an_invalid_fold_has_no_effect(text):
    assert whole(played("agentfold", "one", text).view) == [1, 2]


def test_a_fold_of_steps_that_are_not_there_is_one_of_all_that_are():
    run = played("agentfold", "one", "FOLD 900-901\nx", "FOLD 0-77\ny")
    assert "[steps 1 to 2]\ny" in shown_text(run.view)
    assert whole(run.view) == [3]


def test_the_condenser_keeps_the_first_events_and_half_of_the_rest():
    run = worked("condenser:20", 40)
    first = compactions(run)[0]
    assert first.up_to_step == 10 - 2  # 22 events at the tenth step; 5 of the newest stay, and a call keeps its answer
    shown = next(asked for asked in run.asked if asked.step == 11).view
    assert whole(shown) == [1, 9, 10]
    assert "SUMMARY of the steps up to 8" in shown_text(shown)
    assert all(whole(asked.view)[0] == 1 for asked in run.asked[1:])
    assert all(2 + 2 * len(whole(asked.view)) + 1 <= 21 for asked in run.asked)


def test_the_condenser_sends_what_is_forgotten_as_text_and_never_the_first_events():
    for effect in compactions(worked("condenser:20", 40)):
        text = shown_text(effect.ask.view)
        assert "(kind: condenser; " in text
        assert effect.ask.view.tools == ()
        assert output(1, 200) not in text


@pytest.mark.parametrize(("chars", "summed_up"), [(1_500, False), (9_000, True)])
def test_the_condenser_sums_up_few_events_where_they_fill_four_fifths_of_the_window(chars, summed_up):
    run = worked("condenser:200", 14, chars, window_tokens=50_000)  # about 9,000 or 51,000 tokens
    assert bool(compactions(run)) == summed_up


def test_compact_leaves_nothing_but_its_summary_and_the_last_turn():
    run = worked("compact:8000", 40, 1_000)
    at = compactions(run)[0].up_to_step
    before = next(asked for asked in run.asked if asked.step == at).view
    after = next(asked for asked in run.asked if asked.step == at + 2).view
    assert len(whole(before, 1_000)) == at - 1
    assert whole(after, 1_000) == [at + 1]
    assert head(after).startswith(f"SUMMARY of the steps up to {at}")


def test_compact_waits_for_its_trigger_and_a_small_window_is_one():
    assert compactions(worked("compact", 60, 1_000)) == []
    assert compactions(worked("compact", 60, 1_000, window_tokens=12_000))


def test_after_a_handoff_the_old_thread_can_be_searched():
    asked, world = commands(40, 1_000)
    world.outputs["command 2"] = world.outputs["command 2"].__class__("the zebra is striped\n", exit_code=0)
    search = do("conversation_search", query="zebra")
    run = play(*asked[:35], search, start=started("handoff:8000", limits=FREE), world=world)
    assert compactions(run)
    before, after = (shown_text(asked.view) for asked in run.asked[-2:])
    assert "striped" not in before
    assert "step 2, result\nthe zebra is striped" in after
    assert "zebra'; newer facts count" in after


@pytest.mark.parametrize(
    ("spelled", "tokens", "due"),
    [("handoff", 79, None), ("handoff", 80, 3), ("handoff:50", 49, None), ("handoff:50", 50, 3)],
)
def test_a_handoff_is_due_at_its_trigger_or_at_four_fifths_of_the_window(spelled, tokens, due):
    assert open_strategy(spelled).due(100, SimpleNamespace(past=[1, 2, 3], tokens=tokens)) == due


def test_a_search_for_nothing_is_refused_and_one_without_a_match_says_so():
    run = play(
        do("conversation_search", query="  "), do("conversation_search", query="zebra"),
        start=started("handoff", limits=FREE),
    )  # fmt: skip
    assert "query is empty; name words to search for" in shown_text(run.view)
    assert "no passage matches" in shown_text(run.view)


def test_the_blocks_of_letta_stand_in_the_system_prompt_as_they_are_now():
    run = play(
        do("memory", command="create", path="/memories/env", file_text="env.runner = tox"),
        do("memory", command="str_replace", path="/memories/env", old_str="tox", new_str="nox"),
        start=started("letta", limits=FREE),
    )  # fmt: skip
    systems = [asked.view.system for asked in run.asked]
    assert "MEMORY BLOCKS: none yet" in systems[0]
    assert "- /memories/env (16 characters)\nenv.runner = tox" in systems[1]
    assert "env.runner = nox" in systems[2]
    assert "tox" not in systems[2]


def test_letta_evicts_the_oldest_turns_until_seven_tenths_are_left():
    run = worked("letta:10000", 60, 1_000)
    at = compactions(run)[0].up_to_step
    after = next(asked for asked in run.asked if "SUMMARY of the steps" in shown_text(asked.view))
    shown = whole(after.view, 1_000)
    assert shown[0] == at + 1
    assert 0.35 <= at / (after.step - 1) <= 0.65
    assert at == 8  # a tenth less leaves over 7,000 tokens, one result more leaves too few
    assert "conversation_search" in {tool.name for tool in after.view.tools}


def test_clear_cold_clears_after_a_pause_and_not_before():
    asked, world = commands(30, 1_000)
    world.tick_seconds = 10
    assert len(whole(play(*asked[:20], start=started("clear_cold", limits=FREE), world=world).view, 1_000)) == 20
    asked, world = commands(30, 1_000)
    world.tick_seconds = 4_000
    run = play(*asked[:20], start=started("clear_cold", limits=FREE), world=world)
    assert whole(run.view, 1_000) == [16, 17, 18, 19, 20]
    shown = results(run.view)
    assert len(shown) == 20
    assert all("[cleared: 1,000 characters of output" in text for text in shown[:15])


@pytest.mark.parametrize("name", ["clear_cold", "clear_paying"])
def test_the_clock_is_read_before_each_request_of_strategies_that_know_pauses(name):
    assert len(worked(name, 5).of(ClockRead)) == 6


def test_the_clock_is_not_read_for_other_strategies():
    assert worked("full", 5).of(ClockRead) == []


def test_what_was_cleared_after_a_pause_stays_so_when_the_work_goes_on():
    asked, world = commands(30, 1_000)

    class Paused(type(world)):
        def perform(self, effect):
            self.tick_seconds = 100 if self.seconds == 10 else 1
            return super().perform(effect)

    run = play(*asked[:20], start=started("clear_cold:60", limits=FREE), world=Paused(outputs=world.outputs))
    shown = [whole(each.view, 1_000) for each in run.asked]
    assert shown[9] == list(range(1, 10))
    assert shown[10] == [6, 7, 8, 9, 10]
    assert shown[20] == list(range(6, 21))
