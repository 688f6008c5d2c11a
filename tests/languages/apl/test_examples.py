"""Runs each program of examples/apl offline with its script; each one lints clean and can be replayed."""

import shutil
from pathlib import Path

import pytest

from tests.stage import ROOT

EXAMPLES = ROOT / "examples" / "apl"
SAYS = {
    "log-triage": ["3 of 4 logs tell of trouble", "+1. **Invoice 90210 was charged twice"],
    "pr-triage": ["3 branches; first fix-typo", "+1. `fix-typo` by Ada, 3 lines", "+   **Does not merge.**"],
    "release-checklist": ["4 of 4 points hold.", "Ready: tag v2.1.0."],
    "tic-tac-toe": ["X wins after 7 turns."],
}


def example(name: str, folder: Path) -> Path:
    """Copy an example, as a reader would."""
    return shutil.copytree(EXAMPLES / name, folder / name)


def test_every_example_is_known():
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()) == sorted(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs_by_its_script_and_is_replayed(name, stage, tmp_path):
    place = example(name, tmp_path)
    ran = stage.call("run", place, "--model", f"script:{place / 'script.yaml'}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    patch = stage.only_run() / "changes.patch"
    shown = ran.stdout + (patch.read_text("utf-8") if patch.exists() else "")
    assert [text for text in SAYS[name] if text not in shown] == []
    replayed = stage.call("replay", stage.only_run())
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_the_examples_are_clean(stage):
    files = sorted(path for path in EXAMPLES.rglob("*.apl"))
    ran = stage.call("lint", "--strict", *files)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_a_release_stops_at_a_point_that_fails_after_all_were_looked_at(stage, tmp_path):
    place = example("release-checklist", tmp_path)
    (place / "project" / "total.py").write_text("total = None  # FIXME\n", encoding="utf-8")
    ran = stage.call("run", place)
    assert ran.returncode == 1
    assert "[ ] no work is left to do in the code\n[ ] the tests pass\n2 of 4 points hold." in ran.stdout
    assert "*   **Step**: `Stop where a point fails`" in ran.stdout


def test_a_player_who_never_chooses_a_free_cell_stops_the_game(stage, tmp_path):
    place = example("tic-tac-toe", tmp_path)
    foul = stage.script(*({"call": "pop_frame", "args": {"result": '{"cell": 9}'}} for _ in range(3)))
    ran = stage.call("run", place, "--model", foul)
    assert ran.returncode == 1
    assert "*   **Step**: `Refuse a player who cannot`" in ran.stdout
    assert "(Iteration 1 > Play a turn > tool make_move)" in ran.stdout
