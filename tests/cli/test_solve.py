"""Tests ``stackmem solve`` on the shipped tasks, and its output on stdout."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from stackmem import replay
from stackmem.core.facts import CallRejected, ChecksReturned, FramePushed
from tests.stage import TASKS, Stage, call, command, events, fails, pop, push, records

FIELDS = (
    "run", "run_dir", "task", "model", "strategy", "ending", "outcome", "steps", "frames", "usage", "cost_usd",
    "wall_seconds", "isolation",
)  # fmt: skip


def test_the_calculator_is_solved_by_its_demo_and_json_is_all_of_stdout(stage: Stage):
    ran = stage.run("solve", TASKS / "calculator", "--model", "demo", "--json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert ran.stdout.count("\n") == 1
    assert tuple(result)[: len(FIELDS)] == FIELDS
    assert (result["outcome"], result["ending"], result["task"], result["model"]) == (
        "solved", "popped", "calculator", "demo",
    )  # fmt: skip
    assert result["frames"] >= 2
    assert events(result["run_dir"], CallRejected) == []
    assert result["cost_usd"] is None
    assert "checks: reward 1" in ran.stderr
    assert events(result["run_dir"], ChecksReturned)[0].rewards == {"reward": 1.0}
    assert replay(result["run_dir"]).outcome == "solved"
    again = stage.call("replay", "last")
    assert again.returncode == 0, again.stderr
    assert f"{result['run']}: {result['records']} events verified, {result['steps']} prompts" in again.stdout


def test_a_wrong_calculator_is_found_by_the_hidden_checks_and_exits_1(stage: Stage):
    wrong = "def evaluate(text):\n    return eval(text)\n"
    script = stage.script(push(), call("write_file", path="src/calculator.py", content=wrong), pop(), pop("All done!"))
    ran = stage.call("solve", TASKS / "calculator", "--model", script, "--json")
    assert (ran.returncode, json.loads(ran.stdout)["outcome"]) == (1, "unsolved")


@pytest.mark.parametrize("task", ["ledger_rounding", "provider_map", "split_config"])
def test_every_other_task_is_solved_by_its_demo(stage: Stage, task):
    result = stage.solve(TASKS / task)
    assert (result.outcome, result.exit_code, result.check_error) == ("solved", 0, "")
    assert (result.ending, events(result.run_dir, CallRejected)) == ("popped", [])
    assert len(events(result.run_dir, FramePushed)) >= 2
    replay(result.run_dir)


def test_without_a_model_and_a_key_the_demo_plays_and_one_line_says_so(stage: Stage):
    task = stage.task(pop())
    ran = stage.call("solve", task)
    assert ran.returncode == 0
    assert ran.stdout.startswith("solved (popped) in 1 step")
    (said,) = [line for line in ran.stderr.splitlines() if "no model selected" in line]
    assert "the task's demo script plays the model" in said
    assert "--model NAME" in said


def test_plain_progress_names_every_step_indented_by_depth(stage: Stage):
    task = stage.task(push(), command("exit 3"), fails("529"), command("true"), pop("inner"), pop("outer"))
    ran = stage.call("solve", task, "--model", "demo")
    lines = [line.rstrip() for line in ran.stderr.splitlines()]
    assert "   1  push_frame child -> frame-1" in lines
    assert "   2    run_command exit 3 -> exit 3" in lines
    assert "   2    the provider failed: overloaded: the script says fault 529 -> next wait 1 s" in lines
    assert "   4    pop_frame inner" in lines
    assert "   5  pop_frame outer" in lines
    assert lines[-2:] == ["ended: popped", "checks: reward 1"]
    assert "\x1b" not in ran.stderr


def test_quiet_shows_no_progress(stage: Stage):
    ran = stage.call("solve", stage.task(pop()), "--model", "demo", "--quiet")
    assert ran.stderr == ""
    assert ran.stdout.startswith("solved")


def test_four_runs_at_once_in_one_folder_are_four_whole_runs_and_last_is_the_newest(stage: Stage):
    task = stage.task(*[command("sleep 0.05")] * 4, pop())
    started = [stage.start("solve", task, "--model", "demo", "--json", "--quiet") for _ in range(4)]
    results = [json.loads(process.communicate(timeout=90)[0]) for process in started]
    assert {result["outcome"] for result in results} == {"solved"}
    assert len({result["run"] for result in results}) == len({result["workspace"] for result in results}) == 4
    for result in results:
        assert replay(result["run_dir"]).events == result["records"]
    newest = max(results, key=lambda result: (result["run"][:16], records(result["run_dir"])[0].at, result["run"]))
    told = json.loads(stage.call("replay", "last", "--json").stdout)
    assert told["run"] == newest["run"]


def test_a_reader_that_goes_away_does_not_take_the_run_along(stage: Stage):
    process = stage.start("solve", stage.task(*[command("sleep 0.1")] * 3, pop()), "--model", "demo")
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    assert process.stdout is not None
    assert process.stdout.read().startswith("solved")
    assert process.wait(100) == 0
    assert replay(stage.only_run()).outcome == "solved"


@pytest.mark.parametrize("format_flag", ["--json", "--quiet"])
def test_a_full_disk_under_stdout_is_reported_and_the_result_is_saved(stage: Stage, format_flag):
    with Path("/dev/full").open("w") as full:
        process = stage.start("solve", stage.task(pop()), "--model", "demo", format_flag, stdout=full)
        _, stderr = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "stackmem: the output cannot be written or read (No space left on device)" in stderr
    assert "Traceback" not in stderr
    assert (stage.only_run() / "result.json").exists()


def test_hostile_text_of_tools_and_models_reaches_neither_screen_nor_report_raw(stage: Stage):
    hostile = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\r\x9b1m"
    task = stage.task(
        {"call": "run_command", "args": {"command": f"printf '{hostile}'; exit 1 # {hostile}"}},
        {"text": hostile},
        {"call": f"no_tool{hostile}", "args": {}},
        pop(hostile + "done"),
        test=f"printf '{hostile}'; printf '{hostile}' > \"$VERIFIER_DIR/reward.txt\"\n",
    )
    ran = stage.call("solve", task, "--model", "demo")
    assert ran.returncode == 1
    for shown in (ran.stdout, ran.stderr):
        assert not set(shown) & set("\x1b\x07\u202e\r\x9b")
    assert "done" in ran.stdout


def test_replay_on_a_threads_run_in_another_thread_is_the_same(stage: Stage):
    """Only the main thread handles signals; a run in another thread neither takes nor needs them."""
    task, results = stage.task(command("true"), pop()), []
    thread = threading.Thread(target=lambda: results.append(stage.solve(task)))
    thread.start()
    thread.join(100)
    assert results[0].outcome == "solved"
    assert replay(results[0].run_dir).events == results[0].records


def test_the_program_answers_without_any_variable_of_the_caller_but_home(stage: Stage):
    task = stage.task(pop())
    places = ["--runs-dir", str(stage.runs), "--sandbox-dir", str(stage.work)]
    environ = {"HOME": str(stage.root), "PYTHONPATH": str(TASKS.parent), "XDG_STATE_HOME": str(stage.root / "state")}
    ran = subprocess.run(
        stage.arguments("solve", task, "--model", "demo", "--json", *places), cwd=stage.elsewhere, env=environ,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
