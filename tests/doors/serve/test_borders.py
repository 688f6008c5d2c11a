"""A program that calls through all five languages is debugged across their borders, live and over its recorded run."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.node import node

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FILES = {
    "main.step.py": """import stackmem


@stackmem.step
def main(n: int = 5) -> dict:
    doubled = 2 * n
    found = stackmem.run_program("plan.apl", {"n": doubled})
    return {"found": found, "n": n}
""",
    "plan.apl": """inputs: [{name: n, description: A number.}]
main:
  - {name: Next, tool: set_vars, vars: {next: "{{ n + 1 }}"}}
  - {name: Call, tool: run_program, path: flow.sexp, inputs: {n: "{{ next }}"}, register: got}
""",
    "flow.sexp": """(define (call number)
  (task-content (run_program (path "talk.pb") (inputs (list (list "n" number))))))
(call (+ n 1))
""",
    "talk.pb": """# Talker
says
## Main($n)
### Triggers
- T1:BGN
### Steps
- 01:QUE $r = run_program(path="kid.agent.yaml", inputs={"n": $n})
- 02:YLD call
- 03:RET $r
""",
    "kid.agent.yaml": """name: kid
prompt: Add one to n.
payload: {n: 0}
""",
}
REPLIES = (
    '`Step["Main:01:QUE"]` `$r = run_program(path="kid.agent.yaml", inputs={"n": $n})`\n`Step["Main:02:YLD"]` yld call',
    json.dumps({"taskComplete": True, "payloadChangeRequest": {"updateElements": {"n": 13}}}),
    '`Step["Main:03:RET"]` `Return[$r]`\nyld return',
)
BREAKPOINTS = {"main.step.py": [8], "plan.apl": [4], "flow.sexp": [2], "talk.pb": [9], "kid.agent.yaml": [2]}


@pytest.fixture
def debugged(tmp_path: Path) -> Any:
    for name, text in FILES.items():
        (tmp_path / "here" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "here" / name).write_text(text, encoding="utf-8")
    (tmp_path / "adapter.sh").write_text(f"exec {shlex.quote(sys.executable)} -m stackmem debug\n", "utf-8")
    replies = [{"text": text} for text in REPLIES]
    (tmp_path / "script.yaml").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    live = {
        "program": str(tmp_path / "here/main.step.py"), "model": f"script:{tmp_path / 'script.yaml'}",
        "runsDir": str(tmp_path / "runs"), "sandboxDir": str(tmp_path / "work"),
    }  # fmt: skip

    def debug(
        requests: list[str], *, run: str = "", breakpoints: dict[str, list[int]] | None = None, **launch: Any
    ) -> Any:
        started = {"run": run, "runsDir": live["runsDir"]} if run else live
        lines = BREAKPOINTS if breakpoints is None else breakpoints
        plan = {
            "launch": {**started, **launch},
            "breakpoints": {str(tmp_path / "here" / name): numbers for name, numbers in lines.items()},
            "requests": requests,
        }
        (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        done = subprocess.run(
            [node(), HERE / "editor_borders.mjs", tmp_path / "adapter.sh", tmp_path / "plan.json"],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    return debug


PYTHON, APL = ["main", "main.step.py", 7], ["plan.apl", "plan.apl", 4]
PROGRAM = ["program", "main.step.py", 5]
SEXP = [["call", "flow.sexp", 2], ["program", "flow.sexp", 3]]
PLAYBOOK, LOOP = ["Main", "talk.pb", 8], ["kid", "kid.agent.yaml", 2]
CALLERS = [*SEXP, APL, PYTHON, PROGRAM]
STOPS = [
    [APL, PYTHON, PROGRAM],
    CALLERS,
    [LOOP, PLAYBOOK, *CALLERS],
    [["Main", "talk.pb", 9], *CALLERS],
    [["main", "main.step.py", 8], PROGRAM],
]
"""The frames at each breakpoint, in the order in which the program reaches them."""


def frames(seen: Any) -> list[Any]:
    return [each["frames"] for each in seen["stops"]]


def test_breakpoints_of_each_language_stop_below_its_callers(debugged: Any) -> None:
    seen = debugged(["continue"] * 4)
    assert seen["verified"] == [True] * 5
    assert frames(seen) == STOPS
    assert {each["reason"] for each in seen["stops"]} == {"breakpoint"}
    assert [each["variables"].get(name) for each, name in zip(
        seen["stops"], ("next", "number", "payload", "$r", "found"), strict=True
    )] == ["11", "12", '{"n": 12}', '{"n": 13}', '{"next": 11, "got": {"n": 13}}']  # fmt: skip
    assert seen["code"] == 0
    back = debugged([*["continue"] * 4, *["reverseContinue"] * 4, "reverseContinue"], run="last")
    assert frames(back) == [*STOPS, *STOPS[3::-1], [["program", "main.step.py", 1]]]
    assert back["stops"][-1]["reason"] == "entry"


def test_steps_cross_the_borders(debugged: Any) -> None:
    lines = {"main.step.py": [7]}
    seen = debugged([*["stepIn"] * 12, "stepOut", "stepOut"], breakpoints=lines)
    inner = [stop[0] for stop in frames(seen)]
    entered = debugged(["stepIn"], breakpoints={}, stopOnEntry=True)
    assert [stop[-1] for stop in frames(entered)] == [["program", "main.step.py", 1]] * 2
    assert inner[:4] == [PYTHON, ["plan.apl", "plan.apl", 1], ["plan.apl", "plan.apl", 3], APL]
    assert inner[4:8] == [["program", "flow.sexp", 1]] * 2 + [["program", "flow.sexp", 3], SEXP[0]]
    assert inner[8:13] == [
        ["Main", "talk.pb", 3],
        ["Main", "talk.pb", 7],
        PLAYBOOK,
        *[["kid", "kid.agent.yaml", 1]] * 2,
    ]
    assert [stop["reason"] for stop in seen["stops"][13:]] == ["step"] * 2
    assert inner[13:15] == [["Main", "talk.pb", 9], ["main", "main.step.py", 8]]


def test_a_step_over_a_call_does_not_enter_the_callee(debugged: Any) -> None:
    seen = debugged(["next"], breakpoints={"main.step.py": [7]})
    assert frames(seen) == [[PYTHON, PROGRAM], STOPS[-1]]
