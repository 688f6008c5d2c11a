"""A run in which four languages call one another: one trace, which is replayed and resumed like any other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.facts import FramePushed
from stackmem.core.program_facts import SourceLoaded
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from stackmem.run.programs.result import ProgramResult
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run

PROGRAMS = {
    "main.apl": """
inputs: [{name: n, description: A number., default: 20}]
main:
  - {name: Call, tool: run_program, path: sub/flow.sexp, inputs: {n: "{{ n }}"}, register: got}
  - {name: Say, tool: log, message: "{{ got.n }}"}
""",
    "sub/flow.sexp": """
(run_program (path "next.pb") (inputs (list (list "n" (+ n 1)))))
(task-content (run_program (path "top.agent.yaml") (inputs (list (list "n" n)))))
""",
    "sub/next.pb": "# A\nsays\n## Main($n) -> int\n### Triggers\n- T1:BGN\n### Steps\n- 01:RET $n\n",
    "sub/top.agent.yaml": """
name: kid
prompt: Write a file.
payload: {n: 0}
actions: [{name: Write, tool: write_file}]
""",
}
WRITE = {"name": "Write", "params": {"path": "out.txt", "content": "done"}}
REPLIES = [
    '`Step["Main:01:RET"]` `Return[$n]`\nyld return',
    json.dumps({"nextStep": {"type": "Actions", "actions": [WRITE]}}),
    json.dumps({"taskComplete": True, "payloadChangeRequest": {"updateElements": {"n": 42}}}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def play(folder: Path, **flags: Any) -> ProgramResult:
    (folder / "script.yaml").write_text(json.dumps({"replies": [{"text": each} for each in REPLIES]}), "utf-8")
    flags = {"runs_dir": str(folder / "runs"), "sandbox_dir": str(folder / "work")} | flags
    flags["model"] = f"script:{folder / 'script.yaml'}"
    ready = prepare_program(ProgramArguments(str(folder / "here" / "main.apl")), flags, dict(os.environ), folder)
    assert ready.halts is None
    return run_program(ready, dict(os.environ), Person(lambda _: None))


def test_four_languages_share_one_run_that_replays(folder: Path) -> None:
    result = play(folder)
    assert (result.run.outcome, result.said) == ("finished", ("42",)), result.run.result
    assert "out.txt" in result.run.changed
    run_dir = Path(result.run.run_dir)
    assert replay_run(run_dir).outcome == "finished"
    events = [record.event for record in Run(run_dir).records()]
    assert [each.name for each in events if isinstance(each, FramePushed)] == [
        "flow.sexp",
        "next.pb",
        "Main",
        "top.agent.yaml",
    ]
    loaded = [Path(each.path).name for each in events if isinstance(each, SourceLoaded)]
    assert [name for name in loaded if name in ("flow.sexp", "next.pb", "top.agent.yaml")] == [
        "flow.sexp", "next.pb", "top.agent.yaml",
    ]  # fmt: skip


def test_a_limit_of_the_run_holds_across_the_programs_and_the_run_continues(folder: Path) -> None:
    stopped = play(folder, max_steps="1")
    assert stopped.run.outcome == "limit:steps"
    again = resume(Path(stopped.run.run_dir), {"max_steps": "9"}, dict(os.environ), person=Person(lambda _: None))
    assert again.outcome == "finished", again.result
    assert replay_run(Path(stopped.run.run_dir)).outcome == "finished"
