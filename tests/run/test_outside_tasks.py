"""Imported tasks of other benchmarks pass our own check, and a script solves them in the sandbox."""

import json

import pytest

from stackmem.formats.tasks.check import check_task
from tests.run.tasks.clones import OUTSIDE, soundings
from tests.stage import Stage, call, command, pop

TIDES = "def high_waters(levels):\n    if not levels:\n        raise ValueError('no levels')\n"
TIDES += "    return [n for n in range(1, len(levels) - 1) if levels[n - 1] < levels[n] > levels[n + 1]]\n"
DEPTHS = "METRES = {'m': 1.0, 'fm': 1.8288}\n\n\ndef in_metres(reading):\n    amount, unit = reading.split()\n"
DEPTHS += (
    "    if unit not in METRES:\n        raise ValueError(f'no unit {unit}')\n    return float(amount) * METRES[unit]\n"
)

TASKS = {
    "harbor": ("harbor", "sluice", [command("echo middle > open.txt")], [command("echo north > open.txt")]),
    "exercism": (
        "exercism", "python-tide-table",
        [call("write_file", path="tide_table.py", content=TIDES)],
        [call("write_file", path="tide_table.py", content=TIDES.replace("<", "<=", 1))],
    ),
    "swebench": (
        "swebench/records.jsonl", "waterworks__soundings-7",
        [call("write_file", path="soundings/depth.py", content=DEPTHS)],
        [call("write_file", path="soundings/depth.py", content=DEPTHS.replace(".split()", ".strip().split(' ')"))],
    ),
}  # fmt: skip


@pytest.fixture
def imported(stage: Stage, request):
    """Import a task of this kind as a user does."""
    path, name, *_ = TASKS[request.param]
    more = {"swebench": ["--repo", soundings(stage.root / "clone")], "harbor": ["--host"]}.get(request.param, [])
    ran = stage.call("tasks", "import", request.param, OUTSIDE / path, "-o", stage.root / "tasks", *more)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{name}: {stage.root / 'tasks' / name}\n")
    return request.param, stage.root / "tasks" / name


@pytest.mark.parametrize("imported", TASKS, indirect=True)
def test_it_is_sound_and_a_script_solves_it_and_a_wrong_one_does_not(stage: Stage, imported):
    kind, folder = imported
    _, _, right, wrong = TASKS[kind]
    assert [one.says for one in check_task(str(folder), None, stage.elsewhere) if not one.right] == []
    assert stage.solve(folder, model=stage.script(*right, pop())).outcome == "solved"
    assert stage.solve(folder, model=stage.script(*wrong, pop())).outcome == "unsolved"


def test_the_record_says_which_of_its_tests_did_not_pass(stage: Stage):
    ran = stage.call(
        "tasks", "import", "swebench", OUTSIDE / "swebench" / "records.jsonl", "-o", stage.root / "tasks", "--repo",
        soundings(stage.root / "clone"), "--json",
    )  # fmt: skip
    (row,) = json.loads(ran.stdout)
    done = stage.solve(row["folder"], model=stage.script(*TASKS["swebench"][3], pop()))
    reward = json.loads((stage.runs / done.run / "verifier" / "reward.json").read_text())
    assert reward == {"reward": 0.0, "fail_to_pass": pytest.approx(2 / 3), "pass_to_pass": 1.0}


def test_failed_imports_are_reported_and_exit_with_1(stage: Stage):
    places = ["-o", stage.root / "tasks", "--host"]
    assert stage.call("tasks", "import", "harbor", OUTSIDE / "harbor", *places).returncode == 0
    again = stage.call("tasks", "import", "harbor", OUTSIDE / "harbor", *places)
    assert again.returncode == 1
    assert again.stdout.startswith("sluice: not imported: ")
    nothing = stage.call("tasks", "import", "swebench", OUTSIDE / "harbor", *places[:2])
    assert (nothing.returncode, len(nothing.stderr.splitlines())) == (2, 1)
