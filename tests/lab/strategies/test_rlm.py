"""``rlm``: a conversation whose past is in a variable of a Python program, which the agent's code reads."""

import os
import re
from pathlib import Path

import pytest

import stackmem
from stackmem.core.budgets import Limits
from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.core.program_facts import ProgramCalled, ProgramReturned
from stackmem.core.state import Result
from stackmem.lab.simulated import BoundedReader
from stackmem.run.resume import resume
from tests.build import started
from tests.memory.long_runs import head, whole, worked
from tests.providers.views import asking, assistant, user
from tests.stage import Stage, call, command, events, pop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    return place


def code(text: str):
    return call("run_program", path="history", inputs={"code": text})


def solve(stage: Stage, folder: Path, *replies, strategy: str = "rlm:1,1", **more):
    script = stage.script(*replies, name=f"{len(list(stage.root.iterdir()))}.yaml")
    return stage.solve(folder, "Do it.", model=script, strategy=strategy, **more)


def returned(result) -> list[str]:
    """Return what the calls of the program showed to the agent."""
    state = stackmem.Run(Path(result.run_dir)).state
    texts = [turn.text for turn in state.popped[-1].frame.turns if isinstance(turn, Result)]
    return [text for text in texts if "program 'history" in text]


def test_the_newest_turns_are_shown_and_a_line_says_where_the_others_are() -> None:
    run = worked("rlm:3,2", 20, limits=Limits(steps=None))
    assert whole(run.view) in ([17, 18, 19, 20], [18, 19, 20])
    first = whole(run.view)[0] - 1
    assert re.fullmatch(
        rf"\[Steps up to {first} are no longer shown: [\d,]+ characters, which the variable `context` of the program "
        r"`history` contains\.\]",
        head(run.view),
    )


def test_code_sees_the_whole_conversation_and_its_output_answers_the_call(stage: Stage, folder: Path) -> None:
    result = solve(
        stage, folder, command("echo a.b = 1"), command("echo c.d = 2"),
        code("print(len(context), [entry['step'] for entry in context])\nprint(context[0]['results'])"), pop(),
    )  # fmt: skip
    (text,) = returned(result)
    assert "3 [1, 2, 3]" in text
    assert "a.b = 1" in text
    (called,) = events(result.run_dir, ProgramCalled)
    assert "context" not in called.start.inputs, "the history is derived again, not recorded again"


def test_the_code_asks_the_model_about_slices(stage: Stage, folder: Path) -> None:
    ask = "for entry in context[:2]: print(llm_query('Say what this told: ' + entry['results']))"
    answers = ({"text": "first answer"}, {"text": "second answer"})
    result = solve(stage, folder, command("echo one"), command("echo two"), code(ask), *answers, pop())
    assert "first answer\nsecond answer" in returned(result)[0]
    assert len(events(result.run_dir, ModelReplied)) == 3 + 2 + 1


def test_the_code_calls_itself_for_a_task(stage: Stage, folder: Path) -> None:
    child = (code("print('inner', len(context))"), pop("The child found it."))
    result = solve(stage, folder, command("echo one"), code("print(rlm_query('Find it.'))"), *child, pop())
    assert "The child found it." in returned(result)[0]
    assert len(events(result.run_dir, ProgramCalled)) == 2, "the child calls the program as well"


def test_long_output_is_cut_and_an_exception_is_reported(stage: Stage, folder: Path) -> None:
    long, wrong = code("print('x' * 10_000)"), code("print(1 / 0)")
    result = solve(stage, folder, long, wrong, pop())
    texts = returned(result)
    assert "[2,001 more characters were printed]" in texts[0]
    assert "ZeroDivisionError" in texts[1]


def test_replay_and_resume_derive_the_history_again(stage: Stage, folder: Path) -> None:
    replies = (command("echo a.b = 1"), code("print(context[0]['results'])"), command("echo two"), pop())
    result = solve(stage, folder, *replies, max_steps=2)
    assert stage.call("replay", result.run_dir).returncode == 0
    run = Path(result.run_dir)
    resume(run, {"max_steps": 10}, os.environ)
    assert stackmem.Run(run).state.end.ending == "popped"
    assert stage.call("replay", run).returncode == 0
    assert len(events(run, ProgramReturned)) == 1


def test_without_a_sandbox_it_is_refused(stage: Stage) -> None:
    with pytest.raises(UsageError, match="runs Python in a sandbox; choose another --isolation"):
        stage.solve(stage.task(pop()), strategy="rlm", isolation="memory")


def test_a_program_that_no_agent_called_has_no_history(stage: Stage) -> None:
    path = stage.root / "alone.py"
    path.write_text("import stackmem\n\n@stackmem.step\ndef main() -> int:\n    return len(stackmem.conversation())\n")
    ran = stage.call("run", path, "--model", stage.script(pop()))
    assert ran.stdout.splitlines()[-1] == "0", ran.stderr


def test_the_simulated_model_searches_the_variable_before_it_finds_a_fact_again() -> None:
    plan = "unit 1: needs spec.a <read docs/s.md>\n[exit 0]"
    hidden = Text("[Steps up to 4 are no longer shown: 9 characters, which the variable `context` of the program "
                  "`history` contains.]")  # fmt: skip
    from stackmem.core.guidance.program_calls import SPEC

    asked = ToolCall("c1", "run_command", {"command": "./work plan 1-8"})
    seen = [user("TASK\nDo units 1 to 8.", hidden.text), assistant(asked), user(ToolResult("c1", plan, failed=False))]
    tools = (*started("rlm").tools, SPEC)

    def next_call(*messages) -> ToolCall:
        reply = BoundedReader().reply(asking(*messages, tools=tools))
        return next(part for part in reply.parts if isinstance(part, ToolCall))

    look = next_call(*seen)
    assert (look.name, look.arguments["path"]) == ("run_program", "history")
    printed: list[str] = []
    context = [{"step": 1, "reply": "", "results": "spec.a = x1\nother.b = 2\nchanged spec @ 3"}]
    exec(look.arguments["inputs"]["code"], {"context": context, "print": printed.append})
    assert printed == ["spec.a = x1", "changed spec @ 3"]
    found = user(ToolResult(look.id, "program 'history.step.py' returned:\nspec.a = x1", failed=False))
    assert next_call(*seen, assistant(look), found).arguments == {"command": "./work do 1 spec.a=x1"}
