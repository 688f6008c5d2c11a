"""``stackmem runs``."""

import json

from stackmem.cli.run_table import table
from stackmem.harness.run_list import RunRow
from tests.stage import Stage, command, pop

HOSTILE = "\x1b[31m\u202e\nred" + "x" * 5_000


def test_what_is_not_known_is_a_dash(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    line = table([RunRow("run-1", "", "unfinished")])[1]
    assert line.split() == ["run-1", "unfinished", "-", "-", "-", "-", "-", "-"]


def test_hostile_names_stay_on_their_line():
    lines = table([RunRow(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE), RunRow("b", "", "aborted")])
    assert len(lines) == 3
    assert all(line.isprintable() and len(line) < 500 for line in lines)


def test_the_runs_are_listed_picked_and_sorted(stage: Stage):
    good = stage.solve(stage.task(command("true"), pop())).run
    bad = stage.solve(stage.task(command("true"), name="dry")).run
    listed = stage.run("runs")
    assert listed.returncode == 0, listed.stderr
    assert sorted(line.split()[0] for line in listed.stdout.splitlines()[1:]) == sorted([good, bad])
    told = json.loads(stage.run("runs", "--json", "--sort", "-steps", "--limit", "1").stdout)
    assert [(row["run"], row["outcome"], row["task"]) for row in told] == [(good, "solved", "small")]
    picked = json.loads(stage.run("runs", "--filter", "outcome=model_error", "--json").stdout)
    assert [row["run"] for row in picked] == [bad]


def test_no_runs_are_said_to_be_none(stage: Stage):
    assert stage.run("runs").stdout == f"{stage.runs} holds no such runs\n"
    assert stage.run("runs", "--json").stdout == "[]\n"


def test_a_condition_that_is_none_is_exit_2(stage: Stage):
    wrong = stage.run("runs", "--filter", "solved", "--json")
    assert wrong.returncode == 2
    assert json.loads(wrong.stdout)["outcome"] == "error"
