"""A text by the model that replaces old turns."""

import pytest

from stackmem.core.budgets import Limits
from stackmem.core.messages import Text, ToolResult
from stackmem.lab.strategies.compacting import THRESHOLD
from stackmem.memory import open_strategy
from tests.build import play, settled, shown_text, started
from tests.memory.long_runs import bill, cached, commands, compactions, head, output, requests, whole, worked

SMALL = "summary:8000,keep=2"


def asked_for(effect):
    return effect.ask.view.messages[-1].parts[-1].text


def test_below_the_threshold_it_is_the_whole_history():
    played = worked("summary", 45, 1_000)
    assert compactions(played) == []
    assert len(whole(played.view, 1_000)) == 45


def test_at_the_threshold_the_model_is_asked_and_a_new_conversation_begins():
    played = worked(SMALL, 20, 1_000)
    effect = compactions(played)[0]
    at = effect.up_to_step
    assert whole(played.asked[at + 2].view, 1_000) == [at + 1, at + 2]
    assert head(played.asked[at + 2].view) == f"SUMMARY of the steps up to {at}, which are no longer shown:\na summary"
    assert "TASK\nBuild a calculator" in played.view.messages[0].parts[1].text


def test_the_request_begins_with_its_kind_and_says_what_stays():
    text = asked_for(compactions(worked(SMALL, 20, 1_000))[0])
    assert text.startswith("COMPACTION REQUEST (kind: summary; at most 8000 characters)\n\n")
    assert "the last 2 steps, unchanged" in text
    assert "{{" not in text


def test_a_shared_prefix_is_the_last_prompt_with_the_request_behind_it():
    played = worked(SMALL, 20, 1_000)
    first = compactions(played)[0]
    before = played.asked[first.up_to_step + 1].view  # the previous step's prompt
    view = first.ask.view
    assert (view.system, view.tools) == (before.system, before.tools)
    assert list(view.messages[: len(before.messages)]) == list(before.messages)
    assert [type(part) for part in view.messages[-1].parts] == [ToolResult, Text]


def test_the_cache_reads_all_of_a_shared_prefix_but_the_newest_turn():
    played = worked(SMALL, 20, 1_000)
    views = requests(played)
    place = next(place for place, view in enumerate(views) if view is compactions(played)[0].ask.view)
    found = cached(played)
    assert found[place].broken == ""
    assert found[place].read == found[place - 1].read + found[place - 1].written_5m
    assert (found[place].written_5m, found[place].written_1h) == (0, 0)
    assert found[place + 1].read > 2_000  # system, tools and task


def test_a_cold_prefix_sends_the_old_turns_as_text_under_a_system_prompt_of_its_own():
    view = compactions(worked(SMALL + ",prefix=cold", 20, 1_000))[0].ask.view
    assert view.tools == ()
    assert view.system.startswith("You shorten the record of a coding agent's work")
    assert len(view.messages) == 1
    text = shown_text(view)
    assert "TASK\nBuild a calculator" in text
    assert output(1, 1_000) in text
    assert asked_for(compactions(worked(SMALL + ",prefix=cold", 20, 1_000))[0]).startswith(
        "COMPACTION REQUEST (kind: summary;"
    )


def test_the_old_turns_of_a_cold_prefix_take_half_of_the_window():
    view = compactions(worked("summary:12000,keep=1,prefix=cold", 8, 20_000, window_tokens=12_000))[0].ask.view
    old = next(part.text for part in view.messages[0].parts if part.text.startswith("STEP 1\n"))
    assert "left out ...]" in old
    assert 14_900 <= len(old) <= 15_100  # a token has 2.5 characters


def test_a_cold_prefix_does_not_hold_the_turns_that_stay():
    effect = compactions(worked(SMALL + ",prefix=cold", 20, 1_000))[0]
    text = shown_text(effect.ask.view)
    assert f"output {effect.up_to_step} " in text
    assert f"output {effect.up_to_step + 1} " not in text


def test_the_next_summary_is_asked_for_with_the_last_one_in_sight():
    for prefix in ("shared", "cold"):
        effects = compactions(worked(f"{SMALL},prefix={prefix}", 40, 1_000))
        assert len(effects) >= 2
        assert "SUMMARY of the steps up to" in shown_text(effects[1].ask.view)
        assert "SUMMARY of the steps up to" not in shown_text(effects[0].ask.view)


def test_after_a_summary_the_next_one_waits_for_a_quarter_of_the_threshold():
    """The remaining turns are longer than the threshold."""
    played = worked("summary:3000,keep=3", 12, 8_000)
    steps = [effect.up_to_step for effect in compactions(played)]
    assert steps == sorted(set(steps))
    assert whole(played.view, 8_000) == [10, 11, 12]


@pytest.mark.parametrize("prefix", ["shared", "cold"])
def test_no_request_fills_more_than_the_window(prefix):
    played = worked(f"summary:1000000,prefix={prefix}", 40, 8_000, window_tokens=30_000)
    assert compactions(played)
    assert all(len(shown_text(view)) / 2.5 < 0.75 * 30_000 for view in requests(played))


def test_an_empty_summary_is_said_to_be_none():
    asked, world = commands(20, 1_000)
    world.summary = " \n"
    view = play(*asked, start=started(SMALL, limits=Limits(steps=None)), world=world).view
    assert head(view).endswith("(no summary was written; the workspace is as those steps left it)")


def test_a_summary_that_is_too_long_is_cut_with_a_mark():
    asked, world = commands(20, 1_000)
    world.summary = "s" * 20_000
    text = head(play(*asked, start=started(SMALL, limits=Limits(steps=None)), world=world).view)
    assert text.endswith(" […]")
    assert len(text) < 8_100


def test_a_run_that_was_recorded_without_the_prompt_is_asked_in_plain_words():
    from msgspec import UNSET

    played = worked(SMALL, 20, 1_000, texts=UNSET)
    assert asked_for(compactions(played)[0]).startswith(
        "COMPACTION REQUEST (kind: summary; at most 8000 characters)\n\nAnswer"
    )


def test_the_run_records_the_prompts_that_will_be_sent():
    assert [text.name for text in started("summary").texts] == ["compaction"]
    assert [text.name for text in started("summary:prefix=cold").texts] == ["compaction", "compaction_system"]


def test_a_prompt_after_a_summary_has_the_bytes_that_its_state_folded_anew_gives():
    played = worked(SMALL, 40, 1_000)
    assert played.view.digest == settled(played.strategy.render(played.state)).digest


def test_the_default_threshold_costs_less_than_half_of_it_and_less_than_twice():
    def costs(tokens):
        asked, world = commands(200, 1_800)
        world.summary = "fact = 1\n" * 400
        played = play(*asked, start=started(f"summary:{tokens}", limits=Limits(steps=None)), world=world)
        return bill(cached(played)) + 5 * len(world.summary) * len(compactions(played))

    assert costs(THRESHOLD) < min(costs(THRESHOLD // 2), costs(2 * THRESHOLD))


def test_a_shared_prefix_costs_less_than_a_cold_one():
    shared, cold = (bill(cached(worked(f"summary:16000,prefix={prefix}", 120, 1_500))) for prefix in ("shared", "cold"))
    assert shared < cold


def test_the_names_say_what_is_not_the_default():
    assert open_strategy("summary:24000,prefix=shared").name == "summary"
    assert open_strategy("summary:16000,prefix=cold").name == "summary:tokens=16000,prefix=cold"
