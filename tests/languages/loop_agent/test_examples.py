"""Runs the examples with their scripts in the sandbox and replays each run."""

import os
import shutil
from pathlib import Path

import pytest

from stackmem.languages.running.inputs import read_answers
from stackmem.languages.running.lint import lint_all
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run

EXAMPLES = Path(__file__).parents[3] / "examples" / "loop"
CHANGED = {
    "coordinator": ("NOTES.md",),
    "enrich": (),
    "poll": ("looks",),
    "set-up": ("settings.json",),
}


def test_every_example_is_here():
    assert sorted(path.name for path in EXAMPLES.iterdir()) == sorted(CHANGED)


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_an_example_does_what_its_script_says_and_replays(name, tmp_path):
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name)
    script = folder / "script.yaml"
    flags = {"model": f"script:{script}", "runs_dir": str(tmp_path / "runs"), "sandbox_dir": str(tmp_path / "work")}
    answers = read_answers("answers.yaml", folder) if (folder / "answers.yaml").exists() else []
    ready = prepare_program(ProgramArguments(str(folder), interactive=False), flags, dict(os.environ), tmp_path)
    result = run_program(ready, dict(os.environ), Person(lambda _: answers.pop(0) if answers else None))
    assert (result.run.outcome, result.run.changed, answers) == ("finished", CHANGED[name], [])
    for definition in folder.glob("*.agent.yaml"):
        assert lint_all([str(definition)], tmp_path)[0].findings == ()
    replayed = replay_run(Path(result.run.run_dir))
    assert (replayed.outcome, replayed.steps) == ("finished", script.read_text("utf-8").count("text: |"))
