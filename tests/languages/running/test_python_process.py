"""Python functions in separate processes: one process per call, its own time limit, no leftovers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.languages.playbook.python_functions import RUNNER
from stackmem.languages.running.python_process import PythonCalls
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import Workspace, open_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "w").mkdir()
    opened = open_workspace("none", tmp_path / "w", "/workspace", Profile())
    yield opened
    opened.close()


def given(body: str, answers: tuple[object, ...] = (), folder: str = "1"):
    source = f"import os, time\n@playbook\ndef f():\n    {body}\n"
    order = {
        "source": source, "function": "f", "arguments": {}, "names": ["Ask"], "file": "main.pb", "line": 1,
        "agent": "Main", "variables": {},
    }  # fmt: skip
    place = f".stackmem/python/{folder}"
    return {"folder": place, "program": RUNNER, "order": json.dumps(order), "answers": list(answers)}


def value_of(answer):
    line = next(line for line in answer.value["stdout"].split("\n") if line.startswith("\x1estackmem "))
    return json.loads(line.removeprefix("\x1estackmem "))["value"]


COUNTS = "open('runs', 'a').write('x'); print('hi'); a = Ask(1); b = Ask(x=2); return [a, b, len(open('runs').read())]"


def test_a_function_is_one_process_that_waits_for_its_answers(workspace: Workspace):
    calls = PythonCalls()
    first = calls.use(given(COUNTS), 30, workspace, str)
    assert first.value == {"call": "Ask", "values": [1], "named": {}, "output": "hi\n", "line": 4, "state": {}}
    second = calls.use(given(COUNTS, ({"value": "a"},)), 30, workspace, str)
    assert second.value["named"] == {"x": 2}
    last = calls.use(given(COUNTS, ({"value": "a"}, {"value": "b"})), 30, workspace, str)
    assert value_of(last) == ["a", "b", 1]
    assert os.listdir(workspace.root) == ["runs"]


def test_a_process_that_is_gone_is_started_again_with_its_answers(workspace: Workspace):
    calls = PythonCalls()
    assert calls.use(given(COUNTS), 30, workspace, str).value["call"] == "Ask"
    assert calls.use(given(COUNTS, folder="2"), 30, workspace, str).value["call"] == "Ask"
    last = calls.use(given(COUNTS, ({"value": "a"}, {"value": "b"})), 30, workspace, str)
    assert value_of(last) == ["a", "b", 3]
    calls.stop()
    assert os.listdir(workspace.root) == ["runs"]


def test_only_its_own_time_counts(workspace: Workspace):
    calls = PythonCalls()
    body = "a = Ask(); time.sleep(10000); return a"
    assert "call" in calls.use(given(body), 1.0, workspace, str).value
    time.sleep(1.2)
    ended = calls.use(given(body, ({"value": 1},)), 1.0, workspace, str)
    assert (ended.failed, ended.detail) == ("timeout", "timed out after 1 s; everything it started was killed")
    assert os.listdir(workspace.root) == []


def test_a_process_that_dies_says_how(workspace: Workspace):
    ended = PythonCalls().use(given("os._exit(3)"), 30, workspace, str)
    assert (ended.failed, ended.detail) == ("exit", "exit 3")


def test_secrets_are_taken_out_of_what_it_says(workspace: Workspace):
    calls = PythonCalls()
    asked = calls.use(
        given("print('hush'); return Ask(['hush'])"), 30, workspace, lambda text: text.replace("hush", "***")
    )
    assert asked.value == {"call": "Ask", "values": [["***"]], "named": {}, "output": "***\n", "line": 4, "state": {}}
    calls.stop()


def test_an_interrupt_leaves_nothing_running(workspace: Workspace):
    calls = PythonCalls()

    def scrub(text: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calls.use(given("return Ask()"), 30, workspace, scrub)
    calls.stop()
    assert os.listdir(workspace.root) == []
