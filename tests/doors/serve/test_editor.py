"""Debugging with Visual Studio Code's own client, for each language, live and backwards over a run."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node import node

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SCOPES = ["Variables", "Registers", "Heap", "Frames"]


@pytest.mark.parametrize(
    ("program", "line", "variable", "value", "more"),
    [
        pytest.param("apl/log-triage/main.apl", 39, "findings", "[]", {}, id="apl"),
        pytest.param("sexp/count-words/main.sexp", 17, "most", "10", {"inputs": {"most": 10}}, id="sexp"),
        pytest.param("playbooks/greeting/main.pb", 18, "$name", '"Ada"', {"say": ["hm", "I am Ada"]}, id="playbook"),
        pytest.param("loop/poll/main.agent.yaml", 3, "payload", '{"state": null, "result": null}', {}, id="loop agent"),
    ],
)
def test_an_editor_stops_steps_and_walks_back(tmp_path, program, line, variable, value, more):
    path = ROOT / "examples" / program
    adapter = tmp_path / "adapter.sh"
    adapter.write_text(f"exec {shlex.quote(sys.executable)} -m stackmem debug\n", "utf-8")
    launch = {"program": str(path), "model": f"script:{path.with_name('script.yaml')}", "runsDir": str(tmp_path / "r"),
              "sandboxDir": str(tmp_path / "w"), **more}  # fmt: skip
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"launch": launch, "line": line, "variable": variable}), "utf-8")
    done = subprocess.run(
        [node(), HERE / "editor.mjs", adapter, plan],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    seen = json.loads(done.stdout)
    there = {"frames": 1, "line": line, "scopes": SCOPES, "value": value}
    assert seen["live"] == {"there": there, "stepped": "step", "code": 0}
    assert seen["backwards"] == {"there": there, "back": "breakpoint", "again": there, "begun": "entry"}
