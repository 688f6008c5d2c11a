"""Python programs call programs of the other languages, and are called by them."""

import json
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.facts import FramePushed
from stackmem.core.program_facts import ProgramStarted
from stackmem.languages.running.catalog import describe
from tests.languages.test_calling import CALLEES, CALLERS, REPLIES, VALUES
from tests.stage import Stage, events

CALLER = """
import stackmem

@stackmem.step
def main():
    before = stackmem.shell("echo before").stdout
    return [before, stackmem.run_program("PATH", {"n": 21}), stackmem.shell("echo after").stdout]
"""
CALLEE = """
import stackmem

@stackmem.step
def main(n: int) -> dict:
    '''Double a number.'''
    stackmem.shell("true")
    return {"n": n, "twice": int(stackmem.shell(f"expr {n} + {n}").stdout)}
"""


def play(stage: Stage, files: dict[str, str], main: str, replies: list[str]) -> dict[str, Any]:
    folder = stage.root / "program"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    model = stage.script(*({"text": each} for each in replies or ["unused"]))
    ran = stage.call("run", folder / main, "--model", model, "--json")
    assert ran.stdout.strip(), ran.stderr
    result = json.loads(ran.stdout)
    assert result["outcome"] == "finished", result
    assert stage.call("replay", stage.only_run()).returncode == 0
    value: dict[str, Any] = result["value"]
    return value


@pytest.mark.parametrize("callee", CALLEES)
def test_a_python_program_calls_the_other_languages(stage: Stage, callee: str) -> None:
    files = {"main.step.py": CALLER.replace("PATH", callee), callee: CALLEES[callee]}
    value = play(stage, files, "main.step.py", REPLIES.get(callee, []))
    assert value == ["before\n", VALUES[callee], "after\n"]


@pytest.mark.parametrize("caller", CALLERS)
def test_the_other_languages_call_a_python_program(stage: Stage, caller: str) -> None:
    replies = [each.replace("PATH", "inner.step.py") for each in REPLIES.get(caller, [])]
    value = play(
        stage, {caller: CALLERS[caller].replace("PATH", "inner.step.py"), "inner.step.py": CALLEE}, caller, replies
    )
    assert "42" in json.dumps(value), value
    assert "inner.step.py" in [event.name for event in events(stage.only_run(), FramePushed)]


def test_a_python_program_calls_itself_and_others(stage: Stage) -> None:
    """While one process runs, its callers' processes are stopped and started again."""
    text = """
import random
import stackmem

@stackmem.step
def main(n: int = 4) -> list[int]:
    mark = random.randrange(10**9)
    stackmem.shell("true")
    below = stackmem.run_program("main.step.py", {"n": n - 1}) if n else []
    assert mark >= 0 and stackmem.shell(f"echo {mark}").stdout == f"{mark}\\n"
    return [n, *below]
"""
    assert play(stage, {"main.step.py": text}, "main.step.py", []) == [4, 3, 2, 1, 0]


def test_calls_are_bounded_and_wrong_inputs_fail_the_call(stage: Stage) -> None:
    text = """
import stackmem

@stackmem.step
def main(n: int = 0) -> str:
    try:
        stackmem.run_program("inner.step.py", {"n": "x"})
    except stackmem.EffectFailed as failed:
        return failed.kind + ": " + failed.detail
"""
    value = play(stage, {"main.step.py": text, "inner.step.py": CALLEE}, "main.step.py", [])
    assert value.startswith("refused: inner.step.py did not start: the input n of inner.step.py does not fit")


def test_a_program_is_described_by_its_annotations(tmp_path: Path) -> None:
    path = tmp_path / "double.step.py"
    path.write_text(CALLEE.replace("n: int", 'n: int, how: \'Literal["a", "b"] | None\' = None'), "utf-8")
    entry = describe(path)
    assert (entry.name, entry.description) == ("double", "Double a number.")
    assert entry.schema["required"] == ["n"]
    assert entry.schema["properties"] == {
        "n": {"type": "integer"},
        "how": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}], "default": None},
    }


def test_the_entry_option_is_recorded(stage: Stage) -> None:
    folder = stage.root / "program"
    folder.mkdir()
    text = "import stackmem\n@stackmem.step\ndef one():\n    return 1\n@stackmem.step\ndef two():\n    return 2\n"
    (folder / "many.py").write_text(text, "utf-8")
    refused = stage.call("run", folder / "many.py")
    assert refused.returncode != 0
    assert "name one of one, two with --entry" in refused.stdout + refused.stderr
    ran = stage.call("run", folder / "many.py", "--entry", "two", "--json")
    assert json.loads(ran.stdout)["value"] == 2
    folder = Path(json.loads(ran.stdout)["run_dir"])
    assert events(folder, ProgramStarted)[0].options["entry"] == "two"
