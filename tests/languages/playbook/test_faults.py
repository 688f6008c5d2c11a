"""Reports of faults refer to the user's own lines by file and number, without lines of our code."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path

import pytest

from stackmem.languages.operations import LeaveFrame
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run

from .stage import one, run

CALL = '`Step["P:01"]` `$x = f()`\nyld call'
END = '`Step["P:02"]` `Return[$x]`'


def python(body: str, more: str = "") -> str:
    return f"# A\nsays\n\n```python\nimport asyncio, json\n{body}\n```\n## P\n### Steps\n- 01:EXE\n- 02:RET\n{more}"


def told(tmp_path: Path, body: str, *replies: str, more: str = "") -> str:
    """Return a function's fault as the model reads it. Nothing else is printed."""
    played = run(python(body, more), CALL, *replies, "`Return[1]`", folder=tmp_path)
    found = re.search(r"what\? (.*)", played.instruction(len(replies) + 1))
    assert found is not None
    assert played.said == []
    left = [each.result for each in played.done.happened if isinstance(each, LeaveFrame)]
    assert left[0] == "failed: " + found[1].removeprefix("f() failed: ")  # the user reads it too
    return found[1]


def test_a_fault_of_a_function_is_one_line_with_the_places_in_the_program(tmp_path: Path):
    read = told(tmp_path, "@playbook\ndef f():\n    return g()\ndef g():\n    return 1 / 0")
    assert read == "f() failed: ZeroDivisionError: division by zero (at main.pb:10 in g; main.pb:8 in f)"


@pytest.mark.parametrize(
    "body",
    [
        "@playbook\ndef f():\n    return json.loads('{')",
        "@playbook\nasync def f():\n    return await g()\nasync def g():\n    return json.loads('{')",
        "@playbook\nasync def f():\n    async with asyncio.TaskGroup() as g: g.create_task(x())\n"
        "async def x(): raise KeyError('k')",
        "@playbook\ndef f():\n    try: return 1 / 0\n    except ZeroDivisionError as e: raise ValueError(1) from e",
        "@playbook\nasync def f():\n    return await Ask(1, 2)",
        "@playbook\ndef f(): return f()",
        "@playbook\ndef f(a=open('nothing.txt')): return a",
        "@playbook\ndef f():\n    return exec('1 +')",
    ],
)
def test_no_place_but_the_programs_own_is_told(tmp_path: Path, body: str):
    read = told(tmp_path, body, more="## Ask($q)\n### Steps\n- 01:RET\n")
    places = re.findall(r"(?:at |; )([^;:(]+):(\d+) in", read)
    assert places
    assert {path for path, _ in places} == {"main.pb"}
    assert all(5 <= int(line) <= 10 for _, line in places)


def test_what_a_function_gives_that_is_no_value_is_told_with_its_name(tmp_path: Path):
    read = told(tmp_path, "@playbook\ndef f(): return {1}")
    assert read == "f() failed: f returned no JSON value: Object of type set is not JSON serializable"


def test_a_module_of_the_workspace_is_the_persons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text("def half(n):\n    return 1 / n\n", "utf-8")
    read = told(tmp_path, "@playbook\ndef f():\n    import sys\n    sys.path.insert(0, '.')\n"
                "    import theirs\n    return theirs.half(0)")  # fmt: skip
    assert read.endswith("(at theirs.py:2 in half; main.pb:11 in f)")


def test_an_entry_that_is_a_function_and_fails_halts_the_program(tmp_path: Path):
    played = run(python("@playbook\ndef f(): return 1 / 0"), folder=tmp_path, entry="f")
    assert played.report == (
        "Playbook halted: Function Failed\n"
        "  Reason: f failed: ZeroDivisionError: division by zero (at main.pb:7 in f)\n  At: main.pb:7"
    )


def test_calls_without_end_halt_with_the_line_that_calls(tmp_path: Path):
    text = one("- 01:EXE", "- 02:QUE P()", "- 03:YLD call")
    (tmp_path / "main.pb").write_text(text, "utf-8")
    script = tmp_path / "script.yaml"
    reply = '`Step["P:01"]`\n`Step["P:02"]` `P()`\n`Step["P:03"]` yld call'
    script.write_text(json.dumps({"replies": [{"text": reply}] * 60}), "utf-8")
    flags = {"runs_dir": str(tmp_path / "runs"), "sandbox_dir": str(tmp_path / "work"), "model": f"script:{script}"}
    ready = prepare_program(ProgramArguments(str(tmp_path / "main.pb")), flags, os.environ, tmp_path)
    halted = run_program(ready, dict(os.environ), Person(lambda _: None)).run
    assert halted.outcome == "halted"
    assert halted.result == (
        "Playbook halted: Limit Reached\n"
        "  Reason: 50 frames of the program are open, the most there may be; end one first\n"
        "  At: main.pb:6 (P:03)\n  Text: call of P"
    )
    assert replay_run(Path(halted.run_dir)) is not None


def test_values_that_call_without_end_halt_with_a_line():
    reply = f'`Step["P:01"]` `Say({"[" * 40}P(){"]" * 40})`\nyld call'
    played = run(one("- 01:EXE", "- 02:RET"), *itertools.repeat(reply, 200))
    assert played.report.startswith("Playbook halted: Limit Reached\n  Reason: calls nest deeper than can be followed")
    assert re.search(r"At: main\.pb:\d+ \(P", played.report)
