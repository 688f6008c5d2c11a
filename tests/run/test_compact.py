"""``/compact``: the user asks for a summary, which is recorded and replayed like one that the strategy asks for."""

import os
from pathlib import Path

import pytest

from stackmem.core.compaction import why_no_summary
from stackmem.core.facts import ContextCompacted, ModelFailed, ModelReplied, RunEnded
from stackmem.core.machine import advance, evolve
from stackmem.core.person_facts import PersonCompacted, PersonSaid, SessionRules
from stackmem.core.requests import AskModel, AskPerson, Compact, Effect
from stackmem.core.state import State
from stackmem.core.strategy import SummaryStrategy
from stackmem.doors.chat.next_prompt import next_prompt, summary_line
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.run.ports import UserChoice
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from tests.build import World, do, named, reply, shown_text, started
from tests.run.people import Scripted, replayed, talk
from tests.run.test_plan_mode import Planner
from tests.stage import Stage, call, events, fails

FLAT = SessionRules("flat")
WORK = (call("read_file", path="a.txt"), call("list_files", path="."), {"text": "Done."})
WITH = sorted(name for name in STRATEGIES if isinstance(open_strategy(name), SummaryStrategy))


def test_the_summary_is_written_before_the_next_request_and_replays(stage: Stage):
    replies = [*WORK, {"text": "THE SUMMARY"}, *WORK]
    person = Planner("Look.", PersonCompacted(), "Look again.")
    result = talk(stage, person, stage.script(*replies), FLAT, strategy="compact")
    kinds = [type(event) for event in events(result.run_dir)]
    assert kinds[kinds.index(PersonCompacted) + 1] is ContextCompacted
    [summary] = events(result.run_dir, ContextCompacted)
    assert summary.text == "THE SUMMARY"
    assert replayed(result) == len(replies)
    last = Run(Path(result.run_dir)).prompt(6)
    assert "THE SUMMARY" in shown_text(last)


def test_it_is_also_possible_during_a_request(stage: Stage):
    def meanwhile(looked: int) -> None:
        if looked == 6:
            raise UserChoice(PersonCompacted())

    person = Scripted("Look.", meanwhile=meanwhile)
    replies = [call("read_file", path="a.txt")] * 2 + [{"text": "THE SUMMARY"}, {"text": "Done."}]
    result = talk(stage, person, stage.script(*replies), FLAT, strategy="summary")
    kinds = [type(event) for event in events(result.run_dir, PersonCompacted, ContextCompacted, ModelReplied)]
    assert kinds == [ModelReplied, ModelReplied, PersonCompacted, ContextCompacted, ModelReplied]
    assert replayed(result) == 4


def test_a_failed_summary_ends_like_a_failed_reply_and_is_not_repeated_on_resume(stage: Stage):
    replies = [*WORK, fails("429"), {"text": "THE SUMMARY"}, {"text": "Done."}]
    result = talk(stage, Planner("Look.", PersonCompacted(), "Go."), stage.script(*replies), FLAT, strategy="compact")
    assert len(events(result.run_dir, ModelFailed)) == 1
    assert [event.text for event in events(result.run_dir, ContextCompacted)] == ["THE SUMMARY"]
    replayed(result)
    short = stage.script(*WORK, name="short.yaml")
    ended = talk(stage, Planner("Look.", PersonCompacted()), short, FLAT, strategy="compact")
    assert [event.ending for event in events(ended.run_dir, RunEnded)] == ["model_error"]
    again = resume(Path(ended.run_dir), {}, os.environ).result
    assert again.outcome == "finished"  # the user leaves at once
    assert events(ended.run_dir, ContextCompacted) == []
    replayed(again)


def talked(name: str, *users, replies):
    """Return the state of a conversation and every request to the model."""
    strategy = open_strategy(name)
    start = started(name, session=FLAT)
    state, asked, left, people = evolve(State(), start), [], list(replies), list(users)
    world = World({"a.txt": "x" * 4_000})
    while (upcoming := advance(state, strategy)) is not None:
        if isinstance(upcoming, AskPerson):
            if not people:
                return state, asked
            fact = people.pop(0)
        elif isinstance(upcoming, AskModel):
            asked.append(upcoming)
            fact = named(left.pop(0), upcoming)
        else:
            fact = world.perform(upcoming) if isinstance(upcoming, Effect) else upcoming
            asked += [upcoming] if isinstance(upcoming, Compact) else []
        state = evolve(state, fact)
    raise AssertionError("the conversation ended")


@pytest.mark.parametrize("name", WITH)
def test_every_strategy_with_summaries_can_summarize_on_request(name: str):
    reads = [do("read_file", path="a.txt")] * 8
    state, asked = talked(name, PersonSaid("Look."), replies=[*reads, reply("Done.", stop="end")])
    strategy = open_strategy(name)
    assert why_no_summary(state, strategy) == ""
    before = next_prompt(state, strategy).tokens
    after, asked = talked(
        name, PersonSaid("Look."), PersonCompacted(), PersonSaid("More."),
        replies=[*reads, reply("Done.", stop="end"), reply("Fine.", stop="end")],
    )  # fmt: skip
    assert [type(one) for one in asked[-2:]] == [Compact, AskModel]
    assert "a summary" in shown_text(asked[-1].view)
    assert next_prompt(after, strategy).tokens < before
    assert summary_line(state, after, strategy).startswith("summarized: the next prompt has about ")
    assert after.session is not None
    assert not after.session.compacting


def test_other_strategies_and_an_empty_conversation_say_why_not():
    state, _ = talked("full", PersonSaid("Look."), replies=[reply("Done.", stop="end")])
    assert "the strategy full has no summaries; /strategy compact" in why_no_summary(state, open_strategy("full"))
    state, _ = talked("compact", replies=[])
    assert why_no_summary(state, open_strategy("compact")) == "nothing to summarize yet"
    assert {"compact", "summary"} <= set(WITH)


def test_asking_without_summaries_changes_nothing():
    replies = [do("read_file", path="a.txt"), reply("Done.", stop="end"), reply("Fine.", stop="end")]
    said = PersonSaid("Look."), PersonSaid("More.")
    _, plain = talked("full", *said, replies=replies)
    _, asked = talked("full", said[0], PersonCompacted(), said[1], replies=replies)
    assert [one.view.digest for one in plain] == [one.view.digest for one in asked]
