"""Permission rules in runs: enforced before a call, recorded, and the same in a replay and after a stop."""

import os
from pathlib import Path

import pytest
from msgspec import UNSET

from stackmem import UsageError, replay
from stackmem.core.facts import CallRejected, RunStarted, ToolReturned
from stackmem.core.person_facts import PersonDecided
from stackmem.core.requests import AskPermission
from stackmem.core.state import State
from stackmem.doors.chat.commands import Look
from stackmem.run.opened import Person
from stackmem.run.resume import resume
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call, command, events, pop

RULES = """
[allow]
run_command = "echo a*"
[ask]
run_command = "echo b*"
[deny]
run_command = "echo c*"
write_file = "secrets/*"
"""
CALLS = (command("echo a1"), command("echo b1"), command("true; echo c1"))


@pytest.fixture
def own() -> Path:
    path = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "permissions.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RULES, encoding="utf-8")
    return path


def folder_of(stage: Stage) -> Path:
    mine = stage.root / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "a.txt").write_text("one\n", encoding="utf-8")
    return mine


def refusals(result) -> list[str]:
    return [event.reason for event in events(result.run_dir, CallRejected)]


def test_solve_refuses_what_is_denied_and_what_asks_and_replays_the_same_without_the_file(stage: Stage, own: Path):
    write = call("write_file", path="./secrets/key", content="x")
    script = stage.script(*CALLS, write, pop())
    result = stage.solve(folder_of(stage), "Do it.", model=script)
    asked, denied, written = refusals(result)
    assert "asks the user, and this run has no user to ask" in asked
    assert "[deny] run_command" in denied
    assert "[deny] write_file" in written
    assert events(result.run_dir, ToolReturned)[0].text.startswith("a1")
    assert len(events(result.run_dir, ToolReturned)) == 1
    (start,) = events(result.run_dir, RunStarted)
    assert [rule.effect for rule in start.permissions] == ["allow", "ask", "deny", "deny"]
    own.unlink()
    replay(result.run_dir)


class Killed(BaseException):
    pass


def test_a_killed_run_goes_on_with_the_rules_that_it_recorded(stage: Stage, own: Path):
    def kill(event: object, state: State) -> None:
        if isinstance(event, ToolReturned):
            raise Killed

    with pytest.raises(Killed):
        talk(stage, Scripted("Go on."), stage.script(*CALLS, pop()), observe=kill)
    (run_dir,) = [path for path in stage.runs.iterdir() if path.is_dir()]
    own.write_text('[allow]\nrun_command = "*"\n', encoding="utf-8")
    person = Scripted(decisions=[PersonDecided(allow=True)])
    result = resume(run_dir, {}, os.environ, person=Person(port=person)).result
    assert [asked.about for asked in person.asked] == ["echo b1"]
    (denied,) = refusals(result)
    assert "[deny] run_command" in denied
    assert replayed(result) == 4


def test_in_a_conversation_the_user_is_asked_by_rule_only(stage: Stage, own: Path):
    person = Scripted("Go on.", decisions=[PersonDecided(allow=True)])
    result = talk(stage, person, stage.script(*CALLS, pop()))
    (asked,) = person.asked
    assert isinstance(asked, AskPermission)
    assert (asked.about, asked.outside) == ("echo b1", False)
    assert asked.rule.startswith("the rule [ask] run_command")
    assert len(events(result.run_dir, ToolReturned)) == 2
    assert "[deny] run_command" in refusals(result)[0]
    assert replayed(result) == 4


def test_permissions_shows_the_recorded_rules(stage: Stage, own: Path):
    last: list[State] = []
    result = talk(stage, Scripted("Go on."), stage.script(pop()), observe=lambda _, state: last.append(state))
    told: list[str] = []
    assert Look(told.extend, lambda *lines: told.extend(lines), str)("/permissions", "", last[-1], result.run_dir)
    assert told[0] == 'deny  run_command  "echo c*"  (the user\'s permissions.toml)'
    assert told[-1].startswith("every other call: --approve never")


def test_one_request_without_a_terminal_denies_what_asks_and_says_how_to_allow_it(stage: Stage, own: Path):
    script = stage.script(command("echo b1"), pop("Done."))
    done = stage.run("chat", folder_of(stage), "--model", script, "--network", "none", "-p", "Go on.")
    assert done.returncode == 0, done.stderr
    (run_dir,) = [path for path in stage.runs.iterdir() if path.is_dir()]
    (decided,) = events(run_dir, PersonDecided)
    assert not decided.allow
    assert "move the pattern to [allow]" in decided.words
    replay(run_dir)


def test_an_unknown_tool_stops_the_command_before_a_run_begins(stage: Stage, own: Path):
    own.write_text('[deny]\nshell = "x"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no tool 'shell'"):
        stage.solve(folder_of(stage), "Do it.", model=stage.script(pop()))
    assert not stage.runs.exists() or not [path for path in stage.runs.iterdir() if path.is_dir()]


def test_a_task_has_no_rules(stage: Stage, own: Path):
    result = stage.solve(stage.task(pop()))
    assert events(result.run_dir, RunStarted)[0].permissions is UNSET
