"""Permission rules and hooks apply to the steps of programs in every language, and are recorded."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.facts import CallRejected, RunStarted
from stackmem.core.person_facts import PersonDecided
from stackmem.core.program_facts import ToolAnswered
from stackmem.core.requests import AskPermission
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from stackmem.run.programs.result import ProgramResult
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.settings.mcp_servers import trust
from stackmem.settings.program_trust import read_programs
from tests.run.people import Scripted, replayed, talk
from tests.run.test_hooks import Hooks
from tests.stage import Stage, call, events, pop

WRITE = "echo one >> log.txt"
PROGRAMS = {
    "main.apl": f"main:\n- {{name: Write, tool: shell, command: '{WRITE}'}}\n"
    "- {name: File, tool: write_file, to_file: out.txt, content_template: done}\n",
    "main.sexp": f'(task-content (shell (command "{WRITE}")))\n'
    '(task-content (write_file (path "out.txt") (content "done")))',
    "main.pb": "# A\nsays\n\n```python\n@playbook\ndef save(name: str) -> str:\n"
    "    with open(name, 'w') as file:\n        file.write('done')\n    return name\n```\n\n"
    '## Main\n### Steps\n- 01:QUE $log = save("log.txt")\n- 02:QUE $out = save("out.txt")\n'
    '- 03:YLD call\n- 04:RET $log\n',
    "main.agent.yaml": "name: top\nprompt: Write.\nlimits: {iterations: 3}\n"
    "actions: [{name: Shell, tool: shell}, {name: File, tool: write_file}]\n",
    "main.step.py": "import stackmem\n\n@stackmem.step\ndef main() -> str:\n"
    f"    stackmem.shell('{WRITE}')\n    stackmem.write_file('out.txt', 'done')\n    return 'done'\n",
}  # fmt: skip
LOOP = {
    "nextStep": {
        "actions": [
            {"name": "Shell", "params": {"command": WRITE}},
            {"name": "File", "params": {"path": "out.txt", "content": "done"}},
        ]
    }
}
REPLIES = {
    "main.pb": [
        '`Step["Main:01:QUE"]` `$log = save("log.txt")`\n`Step["Main:02:QUE"]` `$out = save("out.txt")`\n'
        '`Step["Main:03:YLD"]` yld call',
        '`Step["Main:04:RET"]` `Return[1]`\nyld return',
    ],
    "main.agent.yaml": [json.dumps(LOOP), '{"taskComplete": true}'],
}
EVERY = sorted(PROGRAMS)
WITH_SHELL = [name for name in EVERY if name != "main.pb"]


class Desk:
    """A folder with a program, and the user's rules and hooks."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.folder, self.hooks = stage, stage.root / "here", Hooks(stage.root)
        self.folder.mkdir()

    def rules(self, text: str) -> None:
        Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "permissions.toml").write_text(text, encoding="utf-8")

    def ready(self, name: str, text: str = "") -> Any:
        (self.folder / name).write_text(text or PROGRAMS[name], encoding="utf-8")
        replies = [{"text": each} for each in REPLIES.get(name, [])] * 2
        script = self.stage.root / "script.yaml"
        script.write_text(json.dumps({"replies": replies or [{"text": "no"}]}), encoding="utf-8")
        flags = {"runs_dir": str(self.stage.runs), "sandbox_dir": str(self.stage.work), "model": f"script:{script}"}
        return prepare_program(ProgramArguments(str(self.folder / name)), flags, dict(os.environ), self.folder)

    def run(self, name: str, text: str = "") -> ProgramResult:
        return run_program(self.ready(name, text), dict(os.environ), Person(lambda _: None))


@pytest.fixture
def desk(stage: Stage) -> Desk:
    return Desk(stage)


def codes(result: ProgramResult) -> list[str]:
    return [event.code for event in events(result.run.run_dir, CallRejected)]


def hooks_of(result: ProgramResult) -> list[tuple[str, str]]:
    return [(event.hook.event, event.outcome) for event in events(result.run.run_dir, HookRan)]


def verified(result: ProgramResult) -> bool:
    return bool(replay_run(Path(result.run.run_dir)).outcome)


@pytest.mark.parametrize("name", EVERY)
def test_without_rules_every_program_writes_both_files_and_records_nothing_new(desk: Desk, name: str) -> None:
    result = desk.run(name)
    assert result.run.outcome == "finished", result.run.result
    assert set(result.run.changed) == {"log.txt", "out.txt"}
    [start] = events(result.run.run_dir, RunStarted)
    assert (start.guards, codes(result)) == (UNSET, [])


@pytest.mark.parametrize("name", WITH_SHELL)
def test_a_denied_command_does_not_run(desk: Desk, name: str) -> None:
    desk.rules('[deny]\nrun_command = "echo one*"\n')
    result = desk.run(name)
    assert set(codes(result)) == {"denied"}
    assert "log.txt" not in result.run.changed
    [first, *_] = events(result.run.run_dir, CallRejected)
    assert first.reason.startswith('run_command refused: the rule [deny] run_command = "echo one*" in ')
    assert verified(result)


@pytest.mark.parametrize("name", WITH_SHELL)
def test_a_denied_write_does_not_happen_and_without_a_user_asking_denies(desk: Desk, name: str) -> None:
    desk.rules('[ask]\nwrite_file = "out*"\n')
    result = desk.run(name)
    assert result.run.changed == ("log.txt",)
    assert "this run has no user to ask" in events(result.run.run_dir, CallRejected)[0].reason
    assert verified(result)


@pytest.mark.parametrize("name", WITH_SHELL)
def test_hooks_run_before_and_after_each_step_and_may_refuse(desk: Desk, name: str) -> None:
    refuse = "grep -q out.txt && { echo 'not there' >&2; exit 2; }; exit 0"
    desk.hooks.raw("before_tool", refuse, tools=["write_file"])
    desk.hooks.add("after_tool", tools=["run_command", "write_file"])
    result = desk.run(name)
    ran = hooks_of(result)
    assert ("before_tool", "refused") in ran, [(e.text, e.exit_code) for e in events(result.run.run_dir, HookRan)]
    assert ("after_tool", "passed") in ran, [(e.text, e.exit_code) for e in events(result.run.run_dir, HookRan)]
    assert set(codes(result)) == {"hook_refused"}
    assert "out.txt" not in result.run.changed
    given = desk.hooks.given()[0]
    assert (given["tool_name"], given["tool_input"]["command"]) == ("run_command", WRITE)
    assert given["tool_response"]["failed"] is False
    assert verified(result)


def test_functions_of_a_playbook_are_steps_that_rules_and_hooks_name_run_python(desk: Desk) -> None:
    desk.hooks.add("before_tool", "exit 2", tools=["run_python"])
    result = desk.run("main.pb")
    assert result.run.changed == ()
    assert [given["tool_input"]["arguments"] for given in desk.hooks.given()] == [
        {"name": "log.txt"}, {"name": "out.txt"}
    ]  # fmt: skip
    assert set(codes(result)) == {"hook_refused"}
    assert verified(result)
    desk.hooks.path.write_text("", encoding="utf-8")
    desk.rules('[deny]\nrun_python = "sa*"\n')
    denied = desk.run("main.pb")
    assert (denied.run.changed, set(codes(denied))) == ((), {"denied"})
    assert verified(denied)


def test_the_answers_of_a_user_count_for_the_program(stage: Stage) -> None:
    hooks = Hooks(stage.root)
    Path(hooks.path.parent, "permissions.toml").write_text('[ask]\nrun_command = "echo*"\n', encoding="utf-8")
    folder = stage.root / "mine"
    place = folder / ".stackmem" / "programs"
    place.mkdir(parents=True)
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    text = "main:\n" + "".join(
        f"- {{name: S{n}, tool: shell, command: 'echo {n} >> log.txt', allow_failure: true}}\n" for n in range(3)
    )
    (place / "all.apl").write_text(text, encoding="utf-8")
    found = read_programs(folder)
    assert found is not None
    trust(found, os.environ)
    replies = [call("run_program", path="all", inputs={}), pop("Done.")]
    decisions = [PersonDecided(allow=True), PersonDecided(allow=True, scope="session", pattern="echo 1*")]
    person = Scripted("Do it.", decisions=[*decisions, PersonDecided(allow=False, words="enough")])
    result = talk(stage, person, stage.script(*replies), strategy="stackheap")
    assert [asked.about for asked in person.asked if isinstance(asked, AskPermission)] == [
        "echo 0 >> log.txt", "echo 1 >> log.txt", "echo 2 >> log.txt"
    ]  # fmt: skip
    assert "the user did not allow this step: enough" in events(result.run_dir, CallRejected)[-1].reason
    replayed(result)


KILL = """
import os, signal, sys
from pathlib import Path
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
left = int(sys.argv[1])
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
flags = {"runs_dir": sys.argv[3], "sandbox_dir": sys.argv[4]}
ready = prepare_program(ProgramArguments(sys.argv[2]), flags, dict(os.environ), Path(sys.argv[2]).parent)
run_program(ready, dict(os.environ), Person(lambda _: None, observe=observe))
"""


def test_a_kill_between_a_hook_and_its_step_repeats_neither(desk: Desk) -> None:
    desk.hooks.add("before_tool")
    desk.hooks.add("after_tool")
    program = desk.folder / "main.apl"
    program.write_text(PROGRAMS["main.apl"], encoding="utf-8")
    whole = run_program(
        replace(desk.ready("main.apl")), dict(os.environ), Person(lambda _: None)
    )  # fmt: skip
    kinds = [type(event) for event in events(whole.run.run_dir)]
    stops = [number for number, kind in enumerate(kinds, 1) if kind in (HookRan, ToolAnswered)]
    expected = [(type(event).__name__, event.outcome) for event in events(whole.run.run_dir, HookRan)]
    for after in stops:
        before = set(desk.stage.runs.iterdir())
        died = desk.stage.python(KILL, after, program, desk.stage.runs, desk.stage.work)
        assert died.returncode == -signal.SIGKILL, died.stderr
        (run,) = set(desk.stage.runs.iterdir()) - before
        done = resume(run, {"yes": "true"}, dict(os.environ), person=Person(lambda _: None))
        assert done.outcome == "finished"
        assert [(type(event).__name__, event.outcome) for event in events(run, HookRan)] == expected
        assert replay_run(run).outcome == "finished"
