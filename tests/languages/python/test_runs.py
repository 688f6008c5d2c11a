"""Python programs: every effect is recorded, and a killed run continues where it was."""

import json

import pytest

import stackmem
from stackmem.core.facts import FramePushed
from stackmem.core.program_facts import Said, ToolAnswered, UserAnswered
from stackmem.languages.python.inside import api
from stackmem.languages.python.lint import API
from tests.languages.python.programs import ALL, REPLIES, killed, moments, program, run
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


def test_a_fork_continues_with_other_replies(stage: Stage) -> None:
    result, _ = run(stage, ALL, "--input", "topic=cats", "--say", "Bob")
    (stage.root / "other.yaml").write_text(REPLIES.replace("second", "changed"), "utf-8")
    model = f"script:{stage.root / 'other.yaml'}"
    ran = stage.call("fork", result["run"], "--at", "1", "--model", model, "--json")
    assert json.loads(ran.stdout)["outcome"] == "input_needed", ran.stdout
    ran = stage.call("resume", json.loads(ran.stdout)["run"], "--json", "--say", "Eve")
    forked = json.loads(ran.stdout)
    assert forked["outcome"] == "finished", forked
    assert (forked["value"]["said"], forked["value"]["who"]) == (["first", "changed"], "Eve")
    assert forked["value"]["random"] == result["value"]["random"]  # the seed is part of the shared beginning
    assert stage.call("replay", forked["run"]).returncode == 0


def test_the_names_for_editors_are_those_of_a_running_program() -> None:
    public = {name for name, value in vars(api).items() if getattr(value, "__module__", "") == api.__name__}
    assert {name for name in public if not name.startswith("_")} == set(API)
    assert all(getattr(stackmem, name) is getattr(api, name) for name in API)
    with pytest.raises(stackmem.NotAllowed, match="stackmem run FILE"):
        stackmem.ask("x")


@pytest.mark.parametrize("level", ["none", "landlock"])
def test_a_level_that_runs_one_command_at_a_time(stage: Stage, level: str) -> None:
    result, _ = run(stage, ALL, "--input", "topic=cats", "--say", "Bob", "--isolation", level)
    if level == "landlock" and result["outcome"] == "error":
        pytest.skip("this machine has no Landlock")
    assert result["outcome"] == "finished", result
    assert result["value"]["log"] == "more\n"
    assert stage.call("replay", result["run_dir"]).returncode == 0
