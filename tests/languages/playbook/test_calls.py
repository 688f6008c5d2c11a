"""The results of calls: artifacts, Python functions, and agents that exchange messages."""

from pathlib import Path

import pytest

from stackmem.core.requests import InvokeTool
from stackmem.languages.frame.artifacts import plain_name
from stackmem.languages.operations import ChunkAnswer, EnterFrame, KeepChunk, LeaveFrame, ToolAnswer
from stackmem.languages.playbook.interpreter import run_playbook
from stackmem.languages.playbook.language import LANGUAGE
from stackmem.languages.playbook.literals import CallTo
from stackmem.languages.playbook.python_functions import fits
from stackmem.languages.playbook.reader import read_program
from stackmem.languages.playbook.reply_items import Queued
from stackmem.languages.playbook.session_log import SessionLog, brief, head_and_tail
from stackmem.languages.playbook.state import AgentState, PlaybookExecution, PlaybookFrame, PlaybookState
from stackmem.languages.playbook.tools import run_queue
from tests.languages.in_memory import run_in_memory

from .stage import PACKAGED, Desk, launch, one, run

TWO = one("- 01:EXE", "- 02:EXE", "- 03:RET")
END = '`Step["P:02"]` `Step["P:03"]` yld return'


def test_an_artifact_is_kept_shown_and_loaded_for_the_rest_of_the_frame():
    played = run(
        TWO,
        '`Step["P:01"]` `SaveArtifact("r 1.md", "A report", "the content")` `Say("Look: Artifact[r 1.md]!")`\nyld call',
        '`LoadArtifact("r 1.md")`\nyld call',
        "`Var[$a, 1]`\nyld call",
        END,
    )
    assert played.said == ["Look: the content!"]
    assert played.done.chunks == {"r_1.md": "the content"}
    assert '"r 1.md": "A report"' in played.tail(1)
    assert "Loaded Artifact[r 1.md]" in played.instruction(2)
    for index in (2, 3):
        loaded = played.asked[index].messages[0].parts[1].text
        assert loaded == "Artifact[r 1.md]\n\nSummary: A report\n\nContent: the content"
        assert played.asked[index].breakpoints[-1].part == 1
    assert "SaveArtifact" not in played.tail(1).partition("*Current state*")[0]


def test_a_long_artifact_is_a_file_and_is_loaded_by_head_and_tail():
    text = "x" * 40_000
    played = run(
        TWO,
        f'`Step["P:01"]` `SaveArtifact("../../big", "Big", "{text}")` `LoadArtifact("../../big")` '
        '`Say("Artifact[../../big]")`\n'
        "yld call",
        END,
    )
    assert played.files == {"artifacts/_._.._big": text}
    assert played.said == [text]
    loaded = played.asked[1].messages[0].parts[1].text
    assert len(loaded) < 30_200
    assert "characters left out" in loaded


def test_a_variable_names_an_artifact_by_its_value_or_by_its_own_name():
    played = run(
        TWO,
        '`Var[$name, "notes"]`\n`Var[$n, 5]`\n`Step["P:01"]` `SaveArtifact($name, "s", "one")` '
        '`SaveArtifact($n, "s", "two")` '
        '`SaveArtifact($other, "s", "three")` `SaveArtifact("$name", "s", "four")`\nyld call',
        END,
    )
    assert played.done.chunks == {"notes": "four", "n": "two", "other": "three"}


def test_a_name_that_a_queued_call_will_give_is_read_when_it_has():
    text = TWO + "## F\n### Steps\n- 01:RET\n"
    played = run(
        text,
        '`Step["P:01"]` `$n = F()` `SaveArtifact($n, "s", "x")` `LoadArtifact(artifact_name=$n)`\nyld call',
        '`Step["F:01"]` `Return["given"]`',
        END,
    )
    assert played.done.chunks == {"given": "x"}


def test_a_large_value_stands_by_its_size_and_is_loaded_like_an_artifact():
    played = run(TWO, f'`Var[$big, "{"y" * 600}"]`\n`Step["P:01"]` `LoadArtifact($big)`\nyld call', END)
    assert '"chars": 600' in played.tail(1)
    assert played.asked[1].messages[0].parts[1].text == "Artifact[$big]\n\n" + "y" * 600


def test_a_large_result_becomes_an_artifact_by_itself():
    text = TWO + "## F\n### Steps\n- 01:RET\n"
    played = run(text, '`Step["P:01"]` `$r = F()`\nyld call', f'`Step["F:01"]` `Return["{"z" * 501}"]`', END)
    assert played.done.chunks == {"F_result_1": "z" * 501}
    assert "F() returned Artifact[F_result_1] (501 characters); it is $r" in played.instruction(2)


FAILING = {
    "a missing artifact": ('`LoadArtifact("no")`', "unknown artifact 'no'; known: none"),
    "a missing artifact by number": ("`LoadArtifact(5)`", "unknown artifact '5'"),
    "an artifact shown that is missing": ('`Say("Artifact[no]")`', "unknown artifact 'no'; save it"),
    "a name that is none": ('`SaveArtifact(5, "s", "c")`', "the name of an artifact must be a text"),
    "two names that become one": (
        '`SaveArtifact("a b", "s", "c")` `SaveArtifact("a_b", "s", "c")`',
        "'a_b' and 'a b' would be one artifact",
    ),
    "a message to nobody": ('`SendMessage("Bob", "hi")`', "unknown agent 'Bob'; known: human, A"),
    "a message from nobody": ('`WaitForMessage("Bob")`', "unknown agent 'Bob'"),
    "a file that cannot be written": (f'`SaveArtifact("big", "s", "{"x" * 3_000}")`', "could not be written: no room"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails_is_a_fact_that_the_model_reads(name):
    calls, told = FAILING[name]
    desk = Desk([f'`Step["P:01"]` {calls}\nyld call', END])
    desk.refused = {"artifacts/big"}
    played = run(TWO, desk=desk)
    assert played.value is None
    assert told in played.instruction(1)
    assert "what? " in played.instruction(1)
    assert told in played.tail(1).partition("*Current state*")[0]


def test_a_heap_that_is_full_refuses_an_artifact():
    desk = Desk(
        [
            '`Step["P:01"]` `SaveArtifact("a", "s", "c")` `$r = F()`\nyld call',
            f'`Step["F:01"]` `Return["{"z" * 501}"]`',
            END,
        ]
    )
    program = LANGUAGE.start(launch(TWO + "## F\n### Steps\n- 01:RET\n"))
    sent, halted = None, None
    while halted is None:
        try:
            asked = program.send(sent)
        except StopIteration as stop:
            halted = stop
            break
        one_answer = run_in_memory(iter_of(asked), desk.answer, PACKAGED) if not isinstance(asked, KeepChunk) else None
        sent = ChunkAnswer(failed="the heap is full") if one_answer is None else one_answer.value
    told = desk.asked[2].messages[0].parts[-1].text
    assert 'SaveArtifact("a", "s", "c") failed: the heap is full' in told
    assert "F() returned (could not be kept: the heap is full)" in told


def iter_of(asked):
    return (yield asked)


def test_a_result_that_never_came_fails_the_calls_that_use_it():
    played = run(TWO, '`Step["P:01"]` `$r = LoadArtifact("no")` `Say($r)` `Say([$r])` `Say({"a": $r})`\nyld call', END)
    assert played.instruction(1).count("$r has no value, since the call that binds it failed") == 3


def test_an_inner_call_that_fails_fails_the_outer():
    text = TWO + "## F($x)\n### Steps\n- 01:RET\n"
    played = run(text, '`Step["P:01"]` `$r = F(LoadArtifact("no"))`\nyld call', END)
    assert "what? F(LoadArtifact(\"no\")) failed: unknown artifact 'no'" in played.instruction(1)


def test_a_file_that_is_gone_is_told():
    desk = Desk(
        [
            f'`Step["P:01"]` `SaveArtifact("big", "s", "{"x" * 3_000}")`\nyld call',
            '`LoadArtifact("big")` `Say("Artifact[big]")`\nyld call',
            END,
        ]
    )
    answer = desk.answer
    desk.answer = lambda effect: (
        ToolAnswer(None, "missing", "it is gone")
        if isinstance(effect, InvokeTool) and effect.tool == "read_file"
        else answer(effect)
    )
    played = run(TWO, desk=desk)
    assert "failed: it is gone" in played.instruction(2)
    assert played.said == ["(Artifact[big]: it is gone)"]


@pytest.mark.parametrize(
    ("name", "plain"), [("a b/c", "a_b_c"), ("..", "_."), ("../x", "_._x"), ("é", "_"), (".a", "_a")]
)
def test_a_name_never_leads_out_of_its_folder(name, plain):
    assert plain_name(name) == plain


# Agents

PAIR = """# Asker
Asks.
## Main
### Triggers
- T1:BGN
### Steps
- 01:QUE SendMessage
- 02:QUE WaitForMessage
- 03:YLD call
- 04:RET
# Knower
Knows.
## Serve
### Triggers
- T1:BGN
### Steps
- 01:QUE WaitForMessage
- 02:YLD call
- 03:QUE SendMessage
- 04:RET
## public: Square($n)
### Steps
- 01:RET
## Hidden
### Steps
- 01:RET
"""


def test_agents_take_turns_and_hand_each_other_messages():
    played = run(
        PAIR,
        '`Step["Main:01"]` `SendMessage("Knower", "one")` `SendMessage("Knower", "two")`\n'
        '`Step["Main:02"]` `$a = WaitForMessage("Knower")`\n`Step["Main:03"]` yld call',
        '`Step["Serve:01"]` `$q = WaitForMessage("Asker")`\n`Step["Serve:02"]` yld call',
        '`Step["Serve:03"]` `SendMessage("Asker", "42")` `SendMessage("human", "sent")`\n`Step["Serve:04"]` yld return',
        '`Step["Main:04"]` `Return[$a]`',
        snoop=True,
    )
    assert played.value == "42"
    assert played.said == ["[Asker to Knower] one", "[Asker to Knower] two", "[Knower to Asker] 42", "sent"]
    assert "one\ntwo" in played.tail(2) or "one\\ntwo" in played.tail(2)
    assert "Received message from Knower: 42" in played.tail(3)
    assert "Asks." in played.asked[0].system
    assert "Knows." in played.asked[1].system
    depth = 0
    for each in played.done.happened:
        depth += isinstance(each, EnterFrame) - isinstance(each, LeaveFrame)
        assert 0 <= depth <= 1
    assert any(isinstance(each, LeaveFrame) and each.result == "waits for Knower" for each in played.done.happened)


def test_agents_that_all_wait_are_a_deadlock_that_names_them():
    played = run(
        PAIR,
        '`Step["Main:01"]` `Step["Main:02"]` `WaitForMessage("Knower")`\n`Step["Main:03"]` yld call',
        '`Step["Serve:01"]` `WaitForMessage("Asker")`\n`Step["Serve:02"]` yld call',
    )
    assert "Playbook halted: Deadlock" in played.report
    assert "Asker waits for Knower; Knower waits for Asker" in played.report


def test_a_public_playbook_of_another_agent_is_a_frame_of_the_caller():
    start = '`Step["Main:01"]` `Step["Main:02"]` `$a = Knower.Square(3)` `$b = Square(n=4)`\n`Step["Main:03"]` yld call'
    played = run(
        PAIR,
        start,
        '`Step["Square:01"]` `Return[9]`',
        '`Step["Square:01"]` `Return[16]`',
        '`Step["Main:04"]` `Return[[$a, $b]]`',
        entry="Main",
    )
    assert played.value == [9, 16]
    assert "- `Knower.Square($n)`" in played.whole(0)
    assert "Hidden" not in played.whole(0)
    assert "Knows." in played.asked[1].system


def test_a_playbook_that_is_not_public_is_unknown_to_others():
    played = run(PAIR, "`Knower.Hidden()`\nyld call", *["x"] * 3, entry="Main")
    assert "unknown playbook Knower.Hidden" in played.instruction(1)


def test_a_person_answers_where_an_agent_waits_for_them():
    played = run(
        TWO,
        '`Step["P:01"]` `$a = WaitForMessage("human")`\nyld call',
        '`Step["P:02"]` `Step["P:03"]` `Return[$a]`',
        user=("yes",),
    )
    assert played.value == "yes"


# Python


def python(body: str, steps: str = "- 01:QUE\n- 02:RET") -> str:
    return f"# A\n```python\n{body}\n```\n## P\n### Steps\n{steps}\n## Ask($q)\n### Steps\n- 01:RET\n"


CALL = '`Step["P:01"]` `$r = f(2)`\nyld call'
GIVE = '`Step["P:02"]` `Return[$r]`'


def test_markdown_calls_python_that_calls_markdown(tmp_path: Path):
    body = (
        "import json\n@playbook\nasync def f(n: int) -> list:\n    print('before', n)\n"
        "    a = await Ask('one')\n    print('between')\n"
        "    b = await Ask(q='two')\n    try:\n        await Ask()\n"
        "    except Exception as error:\n        print(error)\n    return [a, b, n]"
    )
    played = run(
        python(body), CALL, '`Step["Ask:01"]` `Return[$q]`', '`Step["Ask:01"]` `Return[$q]`', GIVE, folder=tmp_path
    )
    assert played.value == ["one", "two", 2]
    assert played.said == ["before 2", "between", "Ask($q) needs q"]


def test_functions_of_one_block_call_each_other_and_a_plain_one_calls_a_playbook(tmp_path: Path):
    body = "@playbook\ndef g(x):\n    return x * 10\n@playbook\ndef f(n):\n    return g(n) + Ask('?')"
    played = run(python(body), CALL, '`Step["Ask:01"]` `Return[5]`', GIVE, folder=tmp_path)
    assert played.value == 25


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("@playbook\ndef f(n): return 1 / 0", "failed: ZeroDivisionError: division by zero"),
        ("@playbook\ndef f(n): return {1, 2}", "is not JSON serializable"),
        ("@playbook\ndef f(n) -> str: return 5", "f must return str, and returned 5"),
        ("@playbook\ndef f(n: str): return 5", "n of f must be str"),
        ("@playbook\ndef f(n): raise SystemExit(3)", "failed: SystemExit: 3"),
        ("import os\n@playbook\ndef f(n): os._exit(3)", "failed: exit 3"),
        ("import os\n@playbook\ndef f(n): os._exit(0)", "failed: it ended without a result"),
        (
            "import os\n@playbook\ndef f(n): os.write(1, b'\\x1estackmem 5\\n'); os._exit(0)",
            "its last line is not JSON",
        ),
        ("@playbook\ndef f(n): Ask(object())", "are not JSON values"),
        (
            "@playbook\ndef f(n): import os; os.write(1, b'\\x1estackmem {\\n'); os._exit(0)",
            "its last line is not JSON",
        ),
    ],
)
def test_a_function_that_fails_is_a_fact(tmp_path: Path, body: str, told: str):
    played = run(python(body), CALL, '`Step["P:02"]` yld return', folder=tmp_path)
    assert played.value is None
    assert told in played.instruction(1)


def test_a_function_that_calls_forever_is_stopped(tmp_path: Path):
    calls = ['`Step["Ask:01"]` `Return[1]`'] * 201
    desk = Desk([CALL, *calls, '`Step["P:02"]` yld return'])
    answer = desk.answer
    call = ToolAnswer({"call": "Ask", "values": ["x"], "named": {}})
    desk.answer = lambda effect: call if isinstance(effect, InvokeTool) else answer(effect)
    played = run(python("@playbook\ndef f(n): return n"), desk=desk)
    assert "f made over 200 calls" in played.instruction(len(played.asked) - 1)


def test_a_function_whose_files_cannot_be_written_fails(tmp_path: Path):
    desk = Desk([CALL, '`Step["P:02"]` yld return'], folder=tmp_path)
    answer = desk.answer
    refused = ToolAnswer(None, "refused", "no room")
    desk.answer = lambda effect: refused if isinstance(effect, InvokeTool) else answer(effect)
    assert "failed: no room" in run(python("@playbook\ndef f(n): return n"), desk=desk).instruction(1)


def test_a_function_can_be_the_entry(tmp_path: Path):
    body = "@playbook\ndef f(n: int = 4): return n"
    assert run(python(body), folder=tmp_path, entry="f").value == 4


@pytest.mark.parametrize(
    ("value", "kind", "is_one"),
    [
        (1, "int", True),
        (True, "int", False),
        (True, "bool", True),
        (1, "float", True),
        ("x", "str", True),
        (None, "None", True),
        (None, "str", False),
        (None, "Optional[str]", True),
        ("a", "Optional[str]", True),
        (1, "int | None", True),
        ("a", "int | None", False),
        ([], "list[int]", True),
        ({}, "list[int]", False),
        ({}, "dict[str, int | None]", True),
        (1, "Any", True),
        ([1], "tuple", True),
        (1, "'int'", True),
    ],
)
def test_values_are_held_against_annotations(value, kind, is_one):
    assert fits(value, kind) is is_one


# The session log


def test_the_log_tells_less_the_longer_ago_it_was():
    log = SessionLog()
    for number in range(60):
        log.add(("HIGH", "MEDIUM", "LOW")[number % 3], f"{number} " + "word " * 80)
    lines = log.text().splitlines()
    assert len(log) == 60
    assert max(map(len, lines)) > 300
    assert min(map(len, lines)) <= 50
    assert "59 word" in lines[-1]


def test_a_log_that_is_folded_keeps_what_was_before():
    log = SessionLog()
    log.add("HIGH", "before")
    mark = len(log)
    for number in range(80):
        log.add("LOW", str(number))
    log.fold(mark, "summary")
    assert log.text().splitlines()[-1] == "summary"
    log.add("HIGH", "  ")
    assert len(log.text().splitlines()) == 1


def test_what_would_be_almost_nothing_is_left_out():
    assert brief("x" * 100, 50) == ""
    assert brief("short", 50) == "short"
    assert head_and_tail("y" * 3_000, 1_000).count("y") < 1_000


def test_a_call_that_nothing_stands_behind_any_more_fails():
    here = PlaybookExecution(
        PlaybookState(read_program(TWO), "main.pb", ""), AgentState(read_program(TWO).agents[0]), [], run_playbook
    )
    frame = PlaybookFrame(here.agent.agent.playbooks[0], {})
    queue = [Queued(CallTo("Nope")), Queued(CallTo("Say"))]
    lines = run_in_memory(run_queue(here, frame, queue), lambda _: None).value
    assert lines == ["what? Nope() failed: it is unknown", "what? Say() failed: Say(message) needs message"]


def test_an_artifact_is_saved_by_names_of_parameters():
    played = run(TWO, '`Step["P:01"]` `SaveArtifact(name="n", summary="s", content="c")`\nyld call', END)
    assert played.done.chunks == {"n": "c"}
