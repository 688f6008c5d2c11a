"""``stackmem tasks list`` marks what it does not show of a task."""

from pathlib import Path

import pytest

from tests.stage import Stage, pop


@pytest.mark.parametrize(
    ("instruction", "shown"),
    [
        ("Add one.", "Add one."),
        ("# Add one.\n\nTo each number.", "Add one. …"),
        ("x" * 90, "x" * 90),
        ("x" * 91, "x" * 90 + " …"),
        ("Add \x1b[2Jone.", "Add \ufffd[2Jone."),
    ],
)
def test_a_list_marks_what_it_cuts(stage: Stage, instruction: str, shown: str):
    task: Path = stage.task(pop())
    (task / "instruction.md").write_text(instruction + "\n", encoding="utf-8")
    task.rename((stage.root / "tasks").mkdir() or stage.root / "tasks" / "small")
    lines = stage.call("tasks", "list", cwd=stage.root).stdout.splitlines()
    assert [line for line in lines if line.startswith("small ")] == [f"{'small':<20} {shown}"]
