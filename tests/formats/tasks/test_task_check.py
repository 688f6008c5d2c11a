"""``stackmem tasks check``: three findings for a sound task, and a message for each defect."""

import os
from pathlib import Path

import pytest

from stackmem import UsageError
from stackmem.formats.tasks.check import _twice, check_task
from stackmem.run.tasks.find import list_tasks
from stackmem.run.tasks.reader import read_task
from tests.stage import SOLVED, UNSOLVED, Stage, command, pop

MADE = 'test -f made && echo 1 > "$VERIFIER_DIR/reward.txt"\n'


def with_solution(stage: Stage, *replies, test: str = MADE, solve: str | None = "touch made\n"):
    task = stage.task(*replies, test=test)
    if solve is not None:
        (task / "solution").mkdir()
        (task / "solution" / "solve.sh").write_text(solve, encoding="utf-8")
    return task


def findings(stage: Stage, task) -> dict[str, bool]:
    return {found.says: found.right for found in check_task(str(task), None, stage.elsewhere)}


def test_a_sound_task_has_three_right_findings(stage: Stage):
    task = with_solution(stage, command("touch made"), pop())
    assert findings(stage, task) == {
        "doing nothing fails, twice": True, "the solution passes, twice": True, "the demo passes, twice": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"test": SOLVED}, "doing nothing passes, twice; it should not"),
        ({"test": UNSOLVED}, "the solution fails, twice; it should not"),
        ({"solve": "echo broken >&2; exit 3\n"}, "the solution fails, twice; it should not: solve.sh failed: broken"),
        ({"solve": None}, "it has no solution/solve.sh"),
    ],
    ids=["nothing passes", "solution fails", "solution crashes", "no solution"],
)
def test_an_unsound_task_is_named_by_what_is_wrong(stage: Stage, how, says):
    found = findings(stage, with_solution(stage, command("touch made"), pop(), **how))
    assert [right for said, right in found.items() if said.startswith(says)] == [False]


def test_a_demo_that_fails_is_wrong_and_one_that_is_missing_is_told(stage: Stage):
    assert any(
        said.startswith("the demo fails, twice; it should not") and not right
        for said, right in findings(stage, with_solution(stage, pop())).items()
    )
    (stage.root / "small" / "demo.yaml").unlink()
    assert findings(stage, stage.root / "small")["it has no demo.yaml, which is optional"] is True


@pytest.mark.parametrize("wanted", [True, False])
def test_a_verdict_that_changes_by_itself_is_wrong_whatever_was_wanted(stage: Stage, wanted):
    task = read_task(with_solution(stage))
    found = _twice(task, "the solution", [(True, "fine"), (False, "flaky")], wanted)
    assert (found.right, found.says) == (False, "the solution passes once and fails once: flaky")


def test_a_folder_without_a_task_is_refused(stage: Stage):
    with pytest.raises(UsageError):
        list(check_task(".", None, stage.elsewhere))


def test_the_command_says_that_a_task_is_sound(stage: Stage):
    ran = stage.call("tasks", "check", with_solution(stage, command("touch made"), pop()))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines() == [
        "ok    small: doing nothing fails, twice",
        "ok    small: the solution passes, twice",
        "ok    small: the demo passes, twice",
    ]


@pytest.mark.campaign
@pytest.mark.parametrize("task", list_tasks(Path(os.devnull)), ids=lambda task: task.name)
def test_a_task_that_ships_is_sound(stage: Stage, task: Path):
    assert set(findings(stage, task).values()) == {True}


def test_the_command_ends_with_1_where_anything_is_wrong(stage: Stage):
    ran = stage.call("tasks", "check", with_solution(stage, command("touch made"), pop(), test=SOLVED))
    assert ran.returncode == 1
    assert ran.stdout.startswith("WRONG small: doing nothing passes, twice; it should not")
