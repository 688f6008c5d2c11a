"""Python programs: every effect is recorded, and a killed run continues where it was."""

import json

import pytest

from stackmem.core.facts import FramePushed
from stackmem.core.program_facts import Said, ToolAnswered, UserAnswered
from tests.languages.python.programs import ALL, killed, moments, program, run
from tests.stage import Stage, events


def test_every_effect_is_recorded_and_replays(stage: Stage) -> None:
    result, _ = run(stage, ALL, "--input", "topic=cats", "--say", "Bob")
    assert result["outcome"] == "finished", result
    value = result["value"]
    assert (value["said"], value["who"], value["code"]) == (["first", "second"], "Bob", 3)
    assert (value["kind"], value["both"], value["heap"]) == ("missing", ["third", "fourth"], "first")
    assert value["files"] == ["log.txt", "random.txt", "topic.txt"]
    assert value["log"] == "more\n"
    folder = stage.only_run()
    assert [event.text for event in events(folder, Said)] == ["begins with cats"]
    assert [event.text for event in events(folder, UserAnswered)] == ["Bob"]
    assert [event.name for event in events(folder, FramePushed)] == ["main", "look", "look"]
    assert stage.call("replay", folder).returncode == 0


def test_two_runs_differ_only_in_what_is_random(stage: Stage) -> None:
    one, _ = run(stage, ALL, "--input", "topic=cats", "--say", "Bob")
    other, _ = run(stage, ALL, "--input", "topic=cats", "--say", "Bob")
    assert one["value"]["random"] != other["value"]["random"]
    assert one["value"]["sets"] == other["value"]["sets"]


@pytest.mark.parametrize("after", moments(3, seed=44, last=60))
def test_a_killed_run_continues_where_it_was(stage: Stage, after: int) -> None:
    continues(stage, after)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_run_killed_after_each_event_continues(stage: Stage) -> None:
    for after in range(2, 70):
        continues(stage, after)


def continues(stage: Stage, after: int) -> None:
    path = program(stage, ALL)
    folder = killed(stage, path, after, {"topic": "cats"})
    before = events(folder)
    ran = stage.call("resume", folder, "--json", "--say", "Ann")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["outcome"] == "finished", result
    assert events(folder)[: len(before)] == before
    asked = [
        event.value["call"]
        for event in events(folder, ToolAnswered)
        if isinstance(event.value, dict) and "call" in event.value
    ]
    assert asked.count("ask") == 2
    assert result["value"]["log"] == "more\n"  # the command ran once
    assert stage.call("replay", folder).returncode == 0
