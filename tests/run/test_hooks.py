"""Hooks in runs: what they get, what their decisions change, and that a recorded hook never runs again."""

import json
import os
import time
from pathlib import Path

import pytest

from stackmem import UsageError, replay
from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.facts import (
    CallRejected,
    FramePopped,
    FramePushed,
    ReplyNudged,
    RunStarted,
    ToolReturned,
)
from stackmem.core.person_facts import PersonDecided, SessionRules
from stackmem.core.state import Notice, State
from stackmem.run.ending import apply_run
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.opened import Person
from stackmem.run.resume import resume
from stackmem.run.run_folder import APPLY_HOOKS
from stackmem.settings.hook_files import HOOKS_FILE, project_hooks
from stackmem.settings.mcp_servers import trust
from stackmem.trace.open_run import Run
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call, command, events, pop, push


class Hooks:
    """The user's file of hooks, with a log that each of them appends to."""

    def __init__(self, root: Path) -> None:
        self.log = root / "log"
        self.path = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "hooks.toml")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, event: str, then: str = "", **more: object) -> None:
        script = f"tee -a {self.log} >/dev/null; echo >>{self.log}\n{then}"
        self.raw(event, script, **more)

    def raw(self, event: str, script: str, **more: object) -> None:
        rows = [f"command = {json.dumps(script)}", *(f"{name} = {json.dumps(value)}" for name, value in more.items())]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n".join([f"[[{event}]]", *rows, ""]))

    def given(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def hooks(stage: Stage) -> Hooks:
    return Hooks(stage.root)


def folder_of(stage: Stage) -> Path:
    mine = stage.root / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "a.txt").write_text("one\n", encoding="utf-8")
    return mine


def solved(stage: Stage, *replies):
    return stage.solve(folder_of(stage), "Do it.", model=stage.script(*replies))


def ran(result) -> list[tuple[str, str]]:
    return [(event.hook.event, event.outcome) for event in events(result.run_dir, HookRan)]


def test_a_hook_gets_the_call_and_refuses_it_with_its_reason(stage: Stage, hooks: Hooks):
    hooks.add("before_tool", "echo 'no tests today' >&2; exit 2", tools=["run_command"])
    result = solved(stage, command("echo a"), call("list_files", path="."), pop())
    (given,) = hooks.given()
    assert (given["hook_event_name"], given["tool_name"], given["tool_input"]) == (
        "before_tool", "run_command", {"command": "echo a"},
    )  # fmt: skip
    assert given["cwd"] == str(folder_of(stage))
    assert given["run_dir"] == str(result.run_dir)
    (refused,) = events(result.run_dir, CallRejected)
    assert refused.reason.startswith(
        "run_command refused by the before_tool hook in the user's hooks.toml: no tests today"
    )
    assert len(events(result.run_dir, ToolReturned)) == 1
    assert result.outcome == "finished"


def test_a_replay_runs_no_hook_and_needs_no_file(stage: Stage, hooks: Hooks):
    hooks.add("before_tool")
    result = solved(stage, command("echo a"), pop())
    assert len(events(result.run_dir, RunStarted)[0].hooks) == 1
    hooks.path.unlink()
    replay(result.run_dir)
    assert len(hooks.given()) == 1


@pytest.mark.parametrize(
    "printed",
    [
        '{"decision": "block", "reason": "too late"}',
        '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "too late"}}',
        '{"continue": false, "stopReason": "too late"}',
    ],
)
def test_json_on_stdout_refuses_too(stage: Stage, hooks: Hooks, printed: str):
    hooks.raw("before_tool", f"echo '{printed}'")
    result = solved(stage, command("echo a"), pop())
    assert [
        event.reason.partition("toml: ")[2].partition(".")[0] for event in events(result.run_dir, CallRejected)
    ] == ["too late"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "exit 3"),
        ("no-such-command-here", "exit 127: /bin/bash: line 2: no-such-command-here: command not found"),
        ("sleep 60", "it did not end within 0.5 s"),
        ("yes | head -c 1000000000", "it printed over 16 MiB"),
        ("kill -9 $$", "it was ended (killed)"),
        ("echo '{\"decision\": '", "it printed JSON that is not valid"),
        ('echo \'{"decision": "maybe"}\'', "its decision 'maybe' is unknown"),
        ("head -c 3000 /dev/urandom >&2; exit 1", "exit 1"),
    ],
)
@pytest.mark.parametrize("required", [False, True])
def test_a_hook_that_fails_is_recorded_and_refuses_only_if_it_is_required(
    stage: Stage, hooks: Hooks, script: str, why: str, required: bool
):
    hooks.raw("before_tool", script, seconds=0.5 if "sleep" in script else 30, required=required)
    result = solved(stage, command("echo a"), pop())
    (event,) = events(result.run_dir, HookRan)
    assert event.outcome == "failed"
    assert event.text.startswith(why)
    assert len(event.text) <= 4_000
    assert len(events(result.run_dir, ToolReturned)) == (0 if required else 1)
    replay(result.run_dir)


def test_a_daemon_of_a_hook_is_ended_with_it(stage: Stage, hooks: Hooks):
    alive = stage.root / "alive"
    hooks.raw(
        "before_tool", f"setsid sh -c 'while :; do date +%N >{alive}; sleep 0.05; done' >/dev/null 2>&1 & sleep 0.3"
    )
    began = time.monotonic()
    result = solved(stage, command("echo a"), pop())
    assert ran(result) == [("before_tool", "passed")]
    assert time.monotonic() - began < 30
    last = alive.read_text()
    time.sleep(0.3)
    assert alive.read_text() == last


def test_after_a_call_its_words_reach_the_model(stage: Stage, hooks: Hooks):
    hooks.add("after_tool", "echo 'use tabs' >&2; exit 2", tools=["write_*"])
    result = solved(stage, call("write_file", path="b.txt", content="x"), pop())
    (given,) = hooks.given()
    assert given["tool_response"]["failed"] is False
    assert given["tool_input"]["content"] == "x"
    assert ran(result) == [("after_tool", "refused")]
    turns = Run(Path(result.run_dir)).state.popped[-1].frame.turns
    (notice,) = [turn.text for turn in turns if isinstance(turn, Notice)]
    assert notice == "the after_tool hook in the user's hooks.toml says about write_file:\nuse tabs"


def test_a_hook_in_the_sandbox_sees_and_changes_the_workspace(stage: Stage, hooks: Hooks):
    hooks.raw("after_tool", "cat >given.json; sed -i s/two/TWO/ a.txt", tools=["write_file"], sandbox=True)
    result = solved(stage, call("write_file", path="a.txt", content="two\n"), call("read_file", path="a.txt"), pop())
    assert "TWO" in events(result.run_dir, ToolReturned)[1].text
    assert set(result.changed) == {"a.txt", "given.json"}
    assert (folder_of(stage) / "a.txt").read_text() == "one\n"


def test_pushes_and_pops_are_refused_until_the_hook_agrees(stage: Stage, hooks: Hooks):
    hooks.add("before_push", "grep -q ready <<<'' ; exit 0")
    hooks.raw("before_pop", "grep -q tested || { echo 'say that it is tested' >&2; exit 2; }")
    result = solved(stage, push("child"), pop("Done."), pop("Done, tested."), pop("All tested."))
    assert len(events(result.run_dir, FramePushed)) == 1
    assert [event.result for event in events(result.run_dir, FramePopped)] == ["Done, tested.", "All tested."]
    assert "say that it is tested" in events(result.run_dir, CallRejected)[0].reason
    assert [given["tool_name"] for given in hooks.given()] == ["push_frame"]
    assert ran(result) == [
        ("before_push", "passed"), ("before_pop", "refused"), ("before_pop", "passed"), ("before_pop", "passed"),
    ]  # fmt: skip


def test_after_the_last_request_a_run_ends(stage: Stage, hooks: Hooks):
    hooks.add("after_request", "exit 2")
    result = solved(stage, pop("All done."))
    (given,) = hooks.given()
    assert (given["result"], given["forced"]) == ("All done.", "")
    assert result.outcome == "finished"
    replay(result.run_dir)


@pytest.mark.parametrize("policy", ["frame", "flat"])
def test_a_conversation_asks_the_hook_before_the_user_and_after_each_request(stage: Stage, hooks: Hooks, policy: str):
    hooks.raw("before_tool", "grep -q 'echo b' && exit 2; exit 0", tools=["run_command"])
    hooks.add("after_request")
    hooks.raw("before_pop", "grep -q Almost && exit 2; exit 0")
    person = Scripted("Go on.", "And more.", decisions=[PersonDecided(allow=True)])
    replies = command("echo b"), command("echo a"), {"text": "Almost."}, {"text": "Done."}, {"text": "Again."}
    script = stage.script(*replies)
    result = talk(stage, person, script, SessionRules(policy, "commands"))
    assert [asked.about for asked in person.asked] == ["echo a"]
    assert [given["result"] for given in hooks.given()] == ["Done.", "Again."]
    assert len(events(result.run_dir, ReplyNudged)) == 1
    assert replayed(result) == 5


class Killed(BaseException):
    pass


def test_a_killed_run_does_not_run_a_recorded_hook_again_and_forgets_one_that_is_gone(stage: Stage, hooks: Hooks):
    hooks.add("before_tool")

    def kill(event: object, state: State) -> None:
        if isinstance(event, HookRan):
            raise Killed

    with pytest.raises(Killed):
        talk(stage, Scripted("Go on."), stage.script(command("echo a"), command("echo b"), pop()), observe=kill)
    (run_dir,) = [path for path in stage.runs.iterdir() if path.is_dir()]
    assert len(hooks.given()) == 1
    hooks.path.unlink()
    result = resume(run_dir, {}, os.environ, person=Person(port=Scripted())).result
    assert len(hooks.given()) == 1
    first, second = events(run_dir, HookRan)
    assert first.outcome == "passed"
    assert second.text == "the user's hooks.toml no longer has this hook, or is not trusted"
    replay(result.run_dir)


def test_a_fork_runs_only_hooks_after_its_step(stage: Stage, hooks: Hooks):
    hooks.add("before_tool")
    result = solved(stage, command("echo a"), command("echo b"), pop())
    assert len(hooks.given()) == 2
    forked = fork(Path(result.run_dir), 2, ForkChanges(model=stage.script(pop())), os.environ).result
    assert len(hooks.given()) in (2, 3)
    replay(forked.run_dir)


def test_a_hook_refuses_an_apply_and_is_recorded(stage: Stage, hooks: Hooks):
    result = solved(stage, call("write_file", path="b.txt", content="x"), pop())
    hooks.add("before_apply", "echo 'not on Friday' >&2; exit 2")
    with pytest.raises(UsageError, match=r"not applied: the before_apply hook .* refused it: not on"):
        apply_run(Path(result.run_dir))
    assert not (folder_of(stage) / "b.txt").exists()
    (given,) = hooks.given()
    assert given["files"] == ["b.txt"]
    (line,) = (Path(result.run_dir) / APPLY_HOOKS).read_text().splitlines()
    assert json.loads(line)["ran"]["outcome"] == "refused"
    hooks.path.unlink()
    assert apply_run(Path(result.run_dir)).changed == ("b.txt",)


def test_a_project_hook_that_changed_since_it_was_trusted_does_not_run(stage: Stage, hooks: Hooks):
    mine, log = folder_of(stage), stage.root / "project-log"
    (mine / "guard.sh").write_text(f"echo ran >>{log}\n", encoding="utf-8")
    (mine / HOOKS_FILE).write_text('[[before_tool]]\ncommand = "sh guard.sh"\n', encoding="utf-8")
    trust(project_hooks(mine)[1], os.environ)

    def change(event: object, state: State) -> None:
        if isinstance(event, ToolReturned):
            (mine / "guard.sh").write_text(f"echo evil >>{log}\n", encoding="utf-8")

    script = stage.script(command("echo a"), command("echo b"), pop())
    result = talk(stage, Scripted("Go on."), script, observe=change)
    assert log.read_text() == "ran\n"
    assert ran(result)[:2] == [("before_tool", "passed"), ("before_tool", "failed")]


def test_a_hook_that_changes_the_folder_is_followed(stage: Stage, hooks: Hooks):
    hooks.raw("before_tool", "echo changed >a.txt", tools=["run_command"])
    script = stage.script(command("true"), call("read_file", path="a.txt"), pop())
    result = talk(stage, Scripted("Go on."), script)
    assert "changed" in events(result.run_dir, ToolReturned)[1].text
    replayed(result)


def test_a_task_has_no_hooks(stage: Stage, hooks: Hooks):
    hooks.add("before_tool")
    stage.solve(stage.task(command("true"), pop()))
    assert hooks.given() == []


def test_a_hook_leaves_the_processes_of_a_job_alone(stage: Stage, hooks: Hooks):
    hooks.add("after_tool", "sleep 0.5", tools=["list_files"])
    forks = "for i in $(seq 200); do sleep 0.02 || echo killed; done"
    job = call("run_command", command=forks, background=True)
    result = solved(stage, job, *[call("list_files", path=".")] * 2, call("read_job", job=1), pop())
    assert ran(result) == [("after_tool", "passed")] * 2
    assert "killed" not in events(result.run_dir, ToolReturned)[-1].text
