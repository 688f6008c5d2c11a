"""Tests for the ``stackmem fork`` command."""

import json
import signal
import time

import pytest

from stackmem import open_run, replay
from tests.stage import Stage, call, command, eventually, pop


def test_a_fork_shows_the_new_run_and_ends_with_its_code(stage: Stage):
    result = stage.solve(stage.task(call("heap_alloc", name="spec", content="old"), command("true"), pop("Done.")))
    (stage.elsewhere / "new.txt").write_text("new content", encoding="utf-8")
    ran = stage.call(
        "fork", "last", "--at", "1", "--set", "heap.spec=@new.txt", "--set", "heap.b=x", "--max-steps", "+3", "--json"
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (ran.stdout.count("\n"), told["outcome"], told["steps"]) == (1, "solved", 3)
    assert "   2  run_command true" in ran.stderr
    child = open_run(told["run_dir"])
    assert child.heap_at(1).chunks["spec"].content == "new content"
    assert child.state.limits.steps == 203
    again = stage.call("fork", result.run, "--at", "2", "--drop", "heap.spec", "--quiet")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("solved (popped) in 3 steps")
    replayed = stage.call("replay", "last")
    assert (replayed.returncode, replayed.stderr) == (0, "")


def test_a_fork_that_fails_its_checks_exits_1(stage: Stage):
    result = stage.solve(
        stage.task(command("touch x"), pop(), test='test -f /workspace/x && echo 1 > "$VERIFIER_DIR/reward.txt"\n')
    )
    script = stage.script(pop("Nothing to do."))
    ran = stage.call("fork", result.run, "--at", "0", "--model", script, "--quiet")
    assert ran.returncode == 1


def test_impossible_requests_print_one_sentence_and_exit_2(stage: Stage):
    stage.solve(stage.task(pop()))
    for flags, says in (
        (["--at", "1"], "run had already ended"),
        (["--at", "0", "--set", "x=1"], "is not a chunk"),
        ([], "--at"),
    ):
        ran = stage.call("fork", "last", *flags)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
        assert says in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_fork_that_is_interrupted_is_a_whole_run(stage: Stage, number):
    result = stage.solve(stage.task(command("true"), pop("Done.")))
    script = stage.script(command("true"), command("sleep 60"), pop("Done."))
    process = stage.start("fork", result.run, "--at", "1", "--model", script, "--quiet")
    eventually(lambda: [run for run in stage.runs.glob("*/trace.jsonl") if "RunForked" in run.read_text("utf-8")])
    time.sleep(1)
    process.send_signal(number)
    assert process.wait(100) == 128 + number
    (child,) = [run for run in stage.runs.iterdir() if run.name != result.run]
    assert replay(child).outcome == "interrupted"
    assert len(list(stage.work.iterdir())) == 2
