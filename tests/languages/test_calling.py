"""Programs of every language call programs of every language, in one run."""

from __future__ import annotations

from typing import Any

import pytest

from stackmem.core.errors import Halted
from stackmem.core.requests import InvokeTool, LoadSource
from stackmem.languages.calling import MAX_CALLS, RUN_PROGRAM, linked, with_run_program
from stackmem.languages.debugger import DebugMoment
from stackmem.languages.language import Launch, language_of
from stackmem.languages.operations import Complete, Completion, EnterFrame, LeaveFrame, ToolAnswer
from stackmem.languages.running.opening import open_language
from tests.compliance.apl_stage import PACKAGED as LIBRARY
from tests.languages.in_memory import Done, run_in_memory
from tests.languages.playbook.stage import PACKAGED as PLAYBOOKS

CALLEES = {
    "inner.apl": """
inputs: [{name: n, description: A number.}]
main: [{name: Double, tool: set_vars, vars: {twice: "{{ n * 2 }}"}}]
""",
    "inner.sexp": "(list n (* n 2))",
    "inner.pb": "# A\nsays\n## Main($n) -> int\n### Triggers\n- T1:BGN\n### Steps\n- 01:RET twice $n\n",
    "inner.agent.yaml": "name: kid\nprompt: Double n.\npayload: {n: 0}\n",
}
VALUES: dict[str, Any] = {
    "inner.apl": {"twice": 42}, "inner.sexp": [21, 42], "inner.pb": 42, "inner.agent.yaml": {"n": 21, "twice": 42},
}  # fmt: skip
CALLERS = {
    "main.apl": "main: [{name: Call, tool: run_program, path: PATH, inputs: {n: 21}, register: got}]\n",
    "main.sexp": '(task-content (run_program (path "PATH") (inputs \'((n 21)))))',
    "main.pb": '# A\nsays\n## Main\n### Steps\n- 01:QUE $got = run_program(path="PATH", inputs={"n": 21})\n'
    "- 02:YLD call\n- 03:RET $got\n",
    "main.agent.yaml": "name: top\nprompt: Call it.\nactions: [{name: Call, tool: run_program, output_mapping: got}]\n",
}
REPLIES = {
    "inner.pb": ['`Step["Main:01:RET"]` `Return[42]`\nyld return'],
    "inner.agent.yaml": ['{"taskComplete": true, "payloadChangeRequest": {"newElements": {"twice": 42}}}'],
    "main.pb": [
        '`Step["Main:01:QUE"]` `$got = run_program(path="PATH", inputs={"n": 21})`\n`Step["Main:02:YLD"]` yld call',
        '`Step["Main:03:RET"]` `Return[$got]`\nyld return',
    ],
    "main.agent.yaml": [
        '{"nextStep": {"actions": [{"name": "Call", "params": {"path": "PATH", "inputs": {"n": 21}}}]}}',
        '{"taskComplete": true}',
    ],
}
SOURCES = {**PLAYBOOKS, "stackmem:apl/APL_STL.yml": LIBRARY}


def play(name: str, text: str, sources: dict[str, str], replies: list[str], **more: Any) -> Done:
    """Run a program in memory. Sources named only by their file are next to it."""
    told = iter(replies)

    def answer(asked: Any) -> Any:
        if isinstance(asked, Complete):
            return Completion(next(told))
        assert isinstance(asked, InvokeTool), asked
        return ToolAnswer(f"{asked.tool} ran")

    language = open_language(language_of(name) or "")
    launch = Launch(f"/w/{name}", text, tools=with_run_program(()), **more)
    return run_in_memory(linked(launch, language, open_language), answer, {**SOURCES, **sources})


def value_of(done: Done) -> Any:
    assert done.halted is None, done.halted and done.halted.report
    return done.value.get("got", done.value) if isinstance(done.value, dict) else done.value


@pytest.mark.parametrize("callee", CALLEES)
@pytest.mark.parametrize("caller", CALLERS)
def test_a_program_gets_the_value_of_the_other(caller: str, callee: str) -> None:
    first, *rest = [each.replace("PATH", callee) for each in REPLIES.get(caller, [""])]
    replies = [*([first] if caller in REPLIES else []), *REPLIES.get(callee, []), *rest]
    done = play(caller, CALLERS[caller].replace("PATH", callee), {callee: CALLEES[callee]}, replies)
    assert value_of(done) == VALUES[callee]
    assert any(isinstance(each, LoadSource) and each.path == callee for each in done.happened)
    frames = [each for each in done.happened if isinstance(each, EnterFrame | LeaveFrame)]
    assert EnterFrame(callee, f"Run the program {callee}.") in frames
    assert sum(1 if isinstance(each, EnterFrame) else -1 for each in frames) == 0
    assert not any(isinstance(each, InvokeTool) and each.tool == "run_program" for each in done.happened)


FAILURES = {
    '(run_program (path "gone.sexp"))': "the program gone.sexp cannot be read",
    '(run_program (path "notes.txt"))': "notes.txt is not a program",
    '(run_program (path "bad.sexp"))': "bad.sexp halted",
    '(run_program (path "in.apl") (inputs \'((x 1))))': "in.apl did not start",
    '(run_program (path "in.apl") (inputs \'(1 2)))': "an object of names and values",
}


@pytest.mark.parametrize(("call", "why"), FAILURES.items())
def test_a_call_that_fails_is_a_result_of_the_caller(call: str, why: str) -> None:
    sources = {"bad.sexp": "(+ 1 (list_files))\n(nth 5 nil)", "in.apl": "main: []\n"}
    done = play("main.sexp", f'(bind r {call}) (list (task-ok? r) (get-field r "content"))', sources, [])
    ok, content = value_of(done)
    assert (ok, why in str(content)) == (False, True), content
    frames = [each for each in done.happened if isinstance(each, EnterFrame | LeaveFrame)]
    assert sum(1 if isinstance(each, EnterFrame) else -1 for each in frames) == 0


def test_the_frames_of_a_halted_program_are_closed() -> None:
    inner = "name: kid\nprompt: p\nlimits: {failures: 1}\nsub_agents: [{name: a, inline: {name: a, prompt: q}}]\n"
    done = play(
        "main.sexp", '(task-ok? (run_program (path "k.agent.yaml")))', {"k.agent.yaml": inner}, ["no"] * 3
    )  # fmt: skip
    assert value_of(done) is False
    assert [type(each) for each in done.happened if isinstance(each, EnterFrame | LeaveFrame)] == [
        EnterFrame,
        LeaveFrame,
    ]


def test_recursion_ends() -> None:
    text = '(bind r (run_program (path "main.sexp"))) (if (task-ok? r) (+ 1 (task-content r)) 0)'
    done = play("main.sexp", text, {"main.sexp": text}, [])
    assert value_of(done) == MAX_CALLS - 1


def test_a_tool_of_the_user_with_that_name_stays_theirs() -> None:
    own = (RUN_PROGRAM.__class__("run_program", "mine", RUN_PROGRAM.schema),)
    assert with_run_program(own) == own
    language = open_language("sexp")
    launch = Launch("/w/main.sexp", '(task-content (run_program (path "x.sexp")))', tools=own)
    done = run_in_memory(linked(launch, language, open_language), lambda _: ToolAnswer("theirs"), SOURCES)
    assert value_of(done) == "theirs"


def test_a_debugger_sees_the_frames_of_the_callers() -> None:
    moments: list[DebugMoment] = []
    play("main.sexp", '(run_program (path "inner.apl") (inputs \'((n 21))))', CALLEES, [], watch=moments.append)
    stacks = [[frame.path.rpartition("/")[2] for frame in moment.stack] for moment in moments]
    assert ["inner.apl", "main.sexp"] in [list(dict.fromkeys(stack)) for stack in stacks]


def test_a_debugger_that_ends_a_called_program_ends_the_caller() -> None:
    def watch(moment: DebugMoment) -> None:
        if moment.stack[0].path.endswith("inner.apl"):
            raise Halted("Ended", "the user ended it")

    done = play("main.sexp", '(run_program (path "inner.apl") (inputs \'((n 21))))', CALLEES, [], watch=watch)
    assert done.halted is not None
    assert done.halted.kind == "Ended"
