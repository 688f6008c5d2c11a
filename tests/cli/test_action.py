"""Tests for the GitHub Action and its example workflow: their shell steps run here, with hostile texts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stackmem.core.facts import RunStarted
from tests.stage import ROOT, Stage, call, events, pop

ACTION = YAML(typ="safe").load(ROOT / "action.yml")
WORKFLOW = YAML(typ="safe").load(ROOT / "docs" / "examples" / "issue_to_pull_request.yml")
HOSTILE = """\"; touch pwned; $(touch pwned) `touch pwned` ' && touch pwned #
-t --apply
${{ secrets.KEY }}
::set-output::
EOF"""


def step_of(steps: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (step,) = [step for step in steps if step.get("name") == name]
    return step


WORK = step_of(ACTION["runs"]["steps"], "Work on the task")
OPEN = step_of(WORKFLOW["jobs"]["work"]["steps"], "Open a pull request")


@pytest.fixture
def repository(stage: Stage) -> Path:
    """Create a repository with an origin to push to."""
    folder = stage.root / "checkout"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    for line in (
        "init -q -b main .", "add a.txt", "-c user.name=a -c user.email=a@b commit -qm first",
        f"clone -q --bare . {stage.root}/origin.git", f"remote add origin {stage.root}/origin.git",
    ):  # fmt: skip
        subprocess.run(["git", *line.split()], cwd=folder, check=True)
    return folder


def play(stage: Stage, step: dict[str, Any], cwd: Path, **env: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    """Run a shell step as a runner does, and return its outputs."""
    outputs, temp, bin_dir = stage.root / "outputs", stage.root / "temp", stage.root / "bin"
    temp.mkdir(exist_ok=True)
    bin_dir.mkdir(exist_ok=True)
    (bin_dir / "stackmem").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stackmem "$@"\n')
    (bin_dir / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{stage.root}/gh.txt"\n')
    for program in bin_dir.iterdir():
        program.chmod(0o755)
    outputs.write_text("")
    script = stage.root / "step.sh"
    script.write_text(step["run"])
    places = {"RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": str(outputs), "GITHUB_RUN_ID": "7"}
    path = f"{bin_dir}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)], cwd=cwd, text=True,
        env=stage.environ({**places, "PATH": path, **env}), capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    return ran, dict(line.split("=", 1) for line in outputs.read_text().splitlines())


def work(stage: Stage, cwd: Path, *replies: Any, task: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    given = {"TASK": task, "FOLDER": ".", "MODEL": stage.script(*replies), "CHECK": "", "MAX_USD": "2"}
    return play(stage, WORK, cwd, **given, MAX_STEPS="9")


def test_no_shell_step_contains_an_expression():
    for step in [*ACTION["runs"]["steps"], *WORKFLOW["jobs"]["work"]["steps"]]:
        assert "${{" not in step.get("run", "")
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in ACTION["runs"]["steps"])
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION)))
    assert used == set(ACTION["inputs"])
    assert set(WORKFLOW["jobs"]["work"]["steps"][1]["with"]) <= set(ACTION["inputs"])


def test_only_people_of_the_repository_start_a_run_and_the_token_is_not_left_in_the_checkout():
    job = WORKFLOW["jobs"]["work"]
    assert "author_association" in job["if"]
    assert job["steps"][0]["with"]["persist-credentials"] is False
    assert [step.get("name") for step in job["steps"] if "GH_TOKEN" in step.get("env", {})] == ["Open a pull request"]


def test_a_hostile_issue_becomes_a_pull_request_and_reaches_no_shell(stage: Stage, repository: Path):
    result = "Done. @everyone\n$(touch pwned)"
    ran, outputs = work(stage, repository, call("write_file", path="a.txt", content="two\n"), pop(result), task=HOSTILE)
    assert ran.returncode == 0, ran.stderr
    assert outputs["outcome"] == "finished"
    assert (repository / "a.txt").read_text() == "one\n"
    (started,) = events(stage.only_run(), RunStarted)
    assert started.voice.text == HOSTILE
    given = {"NUMBER": "12", "PATCH": outputs["patch"], "RESULT": outputs["result"], "GH_TOKEN": "none"}
    ran, _ = play(stage, OPEN, repository, **given)
    assert ran.returncode == 0, ran.stderr
    pushed = ["git", "show", "stackmem/issue-12-7:a.txt"]
    assert subprocess.run(pushed, cwd=stage.root / "origin.git", capture_output=True, check=True).stdout == b"two\n"
    asked = (stage.root / "gh.txt").read_text().splitlines()
    assert asked[:4] == ["auth", "setup-git", "pr", "create"]
    assert "\n    Done. @everyone\n    $(touch pwned)\n" in (stage.root / "temp" / "body.md").read_text()
    assert list(stage.root.rglob("pwned")) == []


def test_a_run_that_fails_or_changes_nothing_has_no_patch(stage: Stage, repository: Path):
    ran, outputs = work(stage, repository, pop("Nothing to do."), task="Look.")
    assert (ran.returncode, outputs["outcome"], outputs["patch"]) == (0, "finished", "")
    ran, outputs = work(stage, repository, pop(), task="")
    assert (ran.returncode, outputs["outcome"], outputs["patch"]) == (2, "error", "")
    assert "standard input is empty" in ran.stderr
