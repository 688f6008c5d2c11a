"""Tests for a summary in fixed sections."""

from stackmem.core.budgets import Limits
from tests.build import play, started
from tests.memory.long_runs import commands, compactions, head

SECTIONS = ("Requirements", "Architecture", "API", "Code written", "State")


def run(spelled, summary="## State\nall done"):
    asked, world = commands(40, 1_000)
    world.summary = summary
    return play(*asked, start=started(spelled, limits=Limits(steps=None)), world=world)


def test_the_request_names_its_kind_and_every_section():
    text = compactions(run("structured_summary:8000"))[0].ask.view.messages[-1].parts[-1].text
    assert text.startswith("COMPACTION REQUEST (kind: structured; at most 8000 characters)\n\n")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(SECTIONS)


def test_the_sections_stand_at_the_head_of_the_conversation_that_follows():
    assert head(run("structured_summary:8000").view).endswith("## State\nall done")


def test_all_sections_together_are_capped():
    played = run("structured_summary:8000,chars=500", "s" * 5_000)
    assert "at most 500 characters" in compactions(played)[0].ask.view.messages[-1].parts[-1].text
    assert len(head(played.view)) < 600
