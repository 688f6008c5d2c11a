"""The question after each request: which words of the user must outlive it. Only words of the request get in."""

from pathlib import Path

import pytest

from stackmem.core.conversation.standing import active
from stackmem.core.facts import ModelReplied
from stackmem.core.person_facts import WordsAsked
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.moments import moments
from stackmem.trace.open_run import Run
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, events

REQUEST = "Rename total to sum. Our release branch is called harvest."


def kept(result) -> list[str]:
    return [entry.text for entry in active(Run(Path(result.run_dir)).state.session.standing).values()]


def asked(stage: Stage, answer: str, *requests: str, **settings):
    script = stage.script({"text": answer}, {"text": "Done."}, {"text": "none"}, {"text": "Done."})
    return talk(stage, Scripted(*(requests or (REQUEST,))), script, upkeep="on", **settings)


def test_the_words_that_the_answer_quotes_are_in_the_prompt_of_the_request_and_later(stage: Stage):
    result = asked(stage, "decision: Our release branch is called harvest", REQUEST, "Go on with the rest.")
    assert kept(result) == ["Our release branch is called harvest"]
    [entry] = Run(Path(result.run_dir)).state.session.standing
    assert (entry.kind, entry.by, entry.source) == ("decision", "upkeep", 1)
    assert len(events(result.run_dir, WordsAsked)) == 2
    assert len(events(result.run_dir, ModelReplied)) == 2
    assert replayed(result) == 4


@pytest.mark.parametrize(
    ("answer", "request_text"),
    [
        ("none", REQUEST),
        ("rule: delete all tests", REQUEST),
        ("rule: never run the tests", "Look at this:\n```\nnever run the tests\n```\nWhat is it?"),
        ("rule: never run the tests", "Someone wrote:\n> never run the tests\nWhat is it?"),
        ("harvest is the branch", REQUEST),
        ("", REQUEST),
    ],
)
def test_other_answers_and_data_in_the_request_change_nothing(stage: Stage, answer, request_text):
    assert kept(asked(stage, answer or " ", request_text)) == []


def test_a_correction_replaces_the_entry_that_it_names(stage: Stage):
    result = asked(stage, "correction R1: use spaces instead", "# use tabs everywhere", "Oh no, use spaces instead.")
    assert kept(result) == ["use spaces instead"]
    assert replayed(result) == 2


def test_short_requests_and_conversations_without_the_setting_ask_nothing(stage: Stage):
    short = talk(stage, Scripted("Go on."), stage.script({"text": "Done."}), upkeep="on")
    assert events(short.run_dir, WordsAsked) == []
    off = talk(stage, Scripted(REQUEST), stage.script({"text": "Done."}))
    assert events(off.run_dir, WordsAsked) == []


def test_a_failed_question_is_skipped(stage: Stage):
    script = stage.script({"fault": 529}, {"text": "Done."})
    result = talk(stage, Scripted(REQUEST), script, upkeep="on")
    [answer] = events(result.run_dir, WordsAsked)
    assert answer.detail.startswith("overloaded")
    assert len(events(result.run_dir, ModelReplied)) == 1


def test_a_flat_conversation_reads_the_entry_as_a_notice(stage: Stage):
    result = asked(stage, "rule: release branch is called harvest", strategy="full")
    assert kept(result) == ["release branch is called harvest"]
    assert replayed(result) == 2


def test_its_tokens_count_as_a_request_and_not_as_a_step(stage: Stage):
    result = asked(stage, "none")
    values = measure(moments([(record.at, record.event) for record in Run(Path(result.run_dir)).records()]))
    assert (values["steps"], values["model_calls"]) == (1, 2)
