"""Tests for the ``stackmem trace pack`` and ``stackmem runs rm`` commands."""

import json
import os
from pathlib import Path

from stackmem.run.fork import ForkChanges, fork
from tests.stage import Stage, command, pop


def test_a_packed_fork_is_replayed_anywhere(stage: Stage):
    result = stage.solve(stage.task(command("echo x > made"), pop()))
    fork(Path(result.run_dir), 1, ForkChanges(), os.environ)
    ran = stage.call("trace", "pack", "last", "-o", "far.zip", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["parents"], told["missing"]) == ([result.run], 0)
    assert "including 1 parents" in stage.call("trace", "pack", "last").stdout
    for run in stage.runs.iterdir():
        run.rename(stage.root / run.name)
    replayed = stage.call("replay", "far.zip")
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout.startswith(f"{told['run']}: {told['records']} events verified, 2 prompts")
    shown = json.loads(stage.call("replay", "far.zip", "--step", "1", "--json").stdout)
    assert [file["path"] for file in shown["files"]] == ["made"]
    assert stage.call("trace", "pack", stage.root / result.run, "-o", "far.zip").returncode == 2


def test_runs_are_removed_by_name_and_all_names_are_checked_first(stage: Stage):
    task = stage.task(pop())
    runs = [stage.solve(task).run for _ in range(3)]
    refused = stage.call("runs", "rm", runs[0], "nobody")
    assert (refused.returncode, refused.stdout) == (2, "")
    ran = stage.call("runs", "rm", runs[0], runs[1], runs[0])
    assert (ran.returncode, ran.stdout) == (0, f"removed {runs[0]}\nremoved {runs[1]}\n")
    assert [path.name for path in stage.runs.iterdir()] == [path.name for path in stage.work.iterdir()] == [runs[2]]


def test_a_run_with_forks_is_not_removed(stage: Stage):
    result = stage.solve(stage.task(command("true"), pop()))
    child = fork(Path(result.run_dir), 1, ForkChanges(), os.environ).result.run
    ran = stage.call("runs", "rm", result.run)
    assert ran.returncode == 2
    assert child in ran.stderr
    assert stage.call("runs", "rm", child, result.run).returncode == 0
