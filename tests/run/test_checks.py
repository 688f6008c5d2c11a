"""Checks decide whether a run is solved: on a copy, out of the agent's reach, and without crashing."""

from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.core.state import State
from stackmem.history.layer import OwnFolder
from stackmem.run.checking.checks import CheckRoom, CommandCheck, TaskChecks
from stackmem.workspace.isolation.levels import cache_folder
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import build_toolchain
from stackmem.workspace.tree import copy_folder
from stackmem.workspace.workspace import open_workspace
from tests.history.folders import folder, holds
from tests.stage import SOLVED, Stage, call, command, mounted, pop


@pytest.fixture
def room(stage: Stage) -> CheckRoom:
    work = folder(stage.root / "agent", {"made.txt": "made\n", "run.sh": "#!/bin/sh\necho ran\n", "link": "->made.txt"})
    scratch = stage.root / "scratch"
    scratch.mkdir()
    tools = build_toolchain(cache_folder())

    def opened(root, mounts, env):
        return open_workspace("auto", root, "/workspace", Profile(), mounts, env, toolchain=tools)

    return CheckRoom(OwnFolder(work), scratch, opened(work, (), {}).place, opened)


def task_checks(room: CheckRoom, test: str, seconds: float = 30.0, env=None) -> TaskChecks:
    tests = folder(room.scratch.parent / "hidden", {"test.sh": test, "answer.txt": "42"})
    return TaskChecks(room, tests, room.scratch.parent / "verifier", seconds, env or {})


def solved(verdict) -> bool:
    return bool(State(checks=verdict).solved)


def test_a_reward_of_one_is_solved(room: CheckRoom):
    verdict = task_checks(room, SOLVED + "echo said\n").judge()
    assert (verdict.rewards, verdict.error, solved(verdict)) == ({"reward": 1.0}, "", True)
    assert verdict.text == "said\n[exit 0]"


@pytest.mark.parametrize(
    ("rewards", "is_solved"),
    [
        ('{"reward": 1.5}', True), ('{"reward": 0.99}', False), ('{"a": 1, "b": 2}', True), ('{"a": 1, "b": 0}', False),
        ('{"reward": 1, "other": 0}', True), ('{"reward": 0, "other": 1}', False),
    ],
)  # fmt: skip
def test_the_reward_alone_counts_where_there_is_one_and_all_where_there_is_none(room: CheckRoom, rewards, is_solved):
    verdict = task_checks(room, f"printf '%s' '{rewards}' > \"$VERIFIER_DIR/reward.json\"\n").judge()
    assert solved(verdict) is is_solved
    assert verdict.error == ""


@pytest.mark.parametrize(
    ("test", "error"),
    [
        ("exit 0\n", "neither reward.json nor reward.txt (test.sh ended with exit 0)"),
        ("exit 7\n", "(test.sh ended with exit 7)"),
        ("kill -9 $$\n", "neither reward.json"),
        ('echo maybe > "$VERIFIER_DIR/reward.txt"\n', "not a number"),
        ('echo nan > "$VERIFIER_DIR/reward.txt"\n', "not finite"),
        ('mkfifo "$VERIFIER_DIR/reward.txt"\n', "not a regular file"),
        ('mkdir "$VERIFIER_DIR/reward.json"\n', "reward.json"),
        ('head -c 100000 /dev/zero > "$VERIFIER_DIR/reward.txt"\n', "larger than"),
        ('rm -rf "$VERIFIER_DIR"\n', "reward"),
    ],
    ids=["none", "crash", "killed", "word", "nan", "pipe", "folder", "large", "removed"],
)  # fmt: skip
def test_without_a_verdict_a_run_is_unsolved_with_a_reason(room: CheckRoom, test, error):
    verdict = task_checks(room, test).judge()
    assert not solved(verdict)
    assert error in verdict.error


def test_hanging_checks_are_stopped_without_a_verdict(room: CheckRoom):
    verdict = task_checks(room, SOLVED + "sleep 10000\n", seconds=0.5).judge()
    assert not solved(verdict)
    assert verdict.error == "the checks did not end by themselves: timeout"


def test_checks_see_a_copy_and_change_nothing_of_the_agents(room: CheckRoom):
    before = holds(room.layer.view.root)
    spoil = "cat made.txt link; ./run.sh; rm made.txt; echo spoiled > run.sh; touch new\n"
    verdict = task_checks(room, spoil + SOLVED).judge()
    assert verdict.text.startswith("made\nmade\nran\n")
    assert holds(room.layer.view.root) == before
    assert list(room.scratch.iterdir()) == []


@mounted
def test_what_the_checks_need_stands_where_they_are_told(room: CheckRoom):
    test = 'test "$(cat "$TESTS_DIR/answer.txt")" = 42 && test "$WORD" = "two words" && echo $PWD\n'
    verdict = task_checks(room, test + "python -m pytest --version\n" + SOLVED, env={"WORD": "two words"}).judge()
    assert verdict.text.startswith("/workspace\n")
    assert "pytest" in verdict.text


def test_the_tests_cannot_be_written_by_what_they_run(room: CheckRoom):
    verdict = task_checks(
        room, 'echo spoiled > "$TESTS_DIR/answer.txt"; cat "$TESTS_DIR/answer.txt"\n' + SOLVED
    ).judge()
    assert (room.scratch.parent / "hidden" / "answer.txt").read_text("utf-8") == "42"
    assert "42" in verdict.text


def test_a_second_judgement_knows_nothing_of_the_first(room: CheckRoom):
    checks = task_checks(room, 'test -f made.txt && echo 1 > "$VERIFIER_DIR/reward.txt"\n')
    assert solved(checks.judge())
    (room.layer.view.root / "made.txt").unlink()
    verdict = checks.judge()
    assert not solved(verdict)
    assert "neither" in verdict.error


@pytest.mark.parametrize(
    ("check", "is_solved", "error"),
    [
        ("true", True, ""),
        ("false", False, ""),
        ("exit 256", True, ""),
        ("no-such-program", False, ""),
        ("kill -9 $$", False, ""),
    ],
)
def test_a_persons_own_check_is_its_exit_code(room: CheckRoom, check, is_solved, error):
    verdict = CommandCheck(room, check, 30.0).judge()
    assert (solved(verdict), verdict.error) == (is_solved, error)


@pytest.mark.parametrize(
    ("check", "named"),
    [
        ("cat .env.local", ".env.local"),
        ("sh -c 'echo FileNotFoundError: /workspace/sub/keys.pem >&2; exit 1'", "sub/keys.pem"),
        ("echo .env.local.bak my.env.local; exit 1", ""),
        ("echo .env.local", ""),  # it passes, so the file does not matter
        ("false", ""),
    ],
)
def test_a_failed_check_that_names_a_withheld_file_mentions_it(room: CheckRoom, check: str, named: str):
    verdict = CommandCheck(room, check, 30.0, (".env.local", "sub/keys.pem")).judge()
    assert verdict.error.startswith(f"the check names {named}, which the folder has" if named else "")
    assert bool(verdict.error) == bool(named)


def test_a_users_hanging_check_gives_no_verdict(room: CheckRoom):
    verdict = CommandCheck(room, "sleep 600", 0.5).judge()
    assert (solved(verdict), verdict.error) == (False, "the check did not end on its own: timeout")


def test_output_of_checks_is_kept_by_its_end(room: CheckRoom):
    verdict = CommandCheck(room, "seq 100000", 30.0).judge()
    assert verdict.text.endswith("100000\n[exit 0]")
    assert len(verdict.text) <= 4_100


def test_the_agent_finds_neither_tests_nor_verdict(stage: Stage):
    task = stage.task(
        command("ls / /tests /logs /solution $TESTS_DIR 2>/dev/null; find / -name test.sh 2>/dev/null"),
        call("list_files", path=""), call("read_file", path="../tests/test.sh"), pop(),
    )  # fmt: skip
    result = stage.solve(task)
    kept = (Path(result.run_dir) / "trace.jsonl").read_text("utf-8")
    assert "reward.txt" not in kept
    assert "/tests/test.sh" not in kept.replace("../tests/test.sh", "")
    assert result.outcome == "solved"


def test_a_copy_is_exact_and_its_failure_is_reported(stage: Stage):
    source = folder(stage.root / "-source", {"a": "1", "link": "->a", "run": "#!x"})
    assert holds(copy_folder(source, stage.root / "-copy")) == holds(source)
    with pytest.raises(WorkspaceError, match="cannot be copied"):
        copy_folder(stage.root / "gone", stage.root / "copy")
    with pytest.raises(WorkspaceError, match="cannot be copied"):
        copy_folder(source, stage.root / "no" / "such" / "place")
