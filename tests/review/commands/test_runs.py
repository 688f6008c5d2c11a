"""Tests for the ``stackmem runs`` command."""

import json

import pytest

from stackmem.review.commands.runs import how_to_resume, table
from stackmem.review.kept.run_list import RunRow
from tests.stage import Stage, command, pop

HOSTILE = "\x1b[31m\u202e\nred" + "x" * 5_000


def test_unknown_values_are_printed_as_a_dash(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    line = table([RunRow("run-1", "", "interrupted")])[1]
    assert line.split() == ["run-1", "interrupted", *"--------"]


def test_the_parent_run_column_appears_only_if_a_run_has_a_parent(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [RunRow("run-1", "", "solved"), RunRow("run-2", "", "solved", parent="run-1")]
    assert [line.split()[-2] for line in table(rows)] == ["from", "-", "run-1"]
    assert "from" not in table(rows[:1])[0]


def test_the_resume_hint_names_the_newest_interrupted_run():
    rows = [RunRow("run-2", "", "interrupted"), RunRow("run-1", "", "interrupted"), RunRow("run-3", "", "running")]
    assert how_to_resume(rows).endswith("stackmem resume run-2")
    assert how_to_resume(rows[2:]) == ""
    recorded = ("imported:claude-code", "full (stated by the recording)")
    assert how_to_resume([RunRow("run-4", "", "interrupted", strategy=name) for name in recorded]) == ""


def test_a_narrow_terminal_has_short_ids_and_is_spared_the_columns_that_matter_least():
    name = "20261120T150223Z-calculator-stackheap-bac658"
    rows = [RunRow(name, "", "aborted", model="m" * 40, steps=1, tokens=99, request="mend the totals " * 9)]
    assert table(rows, 300)[0].split()[-2:] == ["model", "request"]
    assert table(rows, 300)[1].split()[0] == name
    assert "model" not in table(rows, 100)[0]
    assert table(rows, 70)[0].split() == ["run", "outcome", "steps", "tokens", "cost", "size", "request"]
    assert table(rows, 40)[0].split() == ["run", "outcome", "steps", "cost", "request"]
    assert table(rows, 70)[1].split()[0] == "bac658"
    assert all(len(line) <= 70 for line in table(rows, 70))
    assert (
        table([*rows, RunRow("another-bac658", "", "solved")], 70)[1].split()[0] == name
    )  # that ending matches two runs


def test_the_first_request_is_shown_and_the_end_of_an_id_names_a_run(stage: Stage):
    run = stage.solve(stage.task(command("true"), pop(), text="Mend it.\nAll of it.\n")).run
    (row,) = json.loads(stage.call("runs", "--json", "--filter", "request=mend*").stdout)
    assert (row["run"], row["request"]) == (run, "Mend it.")
    assert json.loads(stage.call("runs", "--json", "--filter", "request=other*").stdout) == []
    assert stage.call("replay", run[-6:]).returncode == 0
    assert f"no run '000000' in {stage.runs}" in stage.call("replay", "000000").stderr


def test_hostile_names_stay_on_their_line():
    lines = table([RunRow(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE), RunRow("b", "", "aborted")])
    assert len(lines) == 3
    assert all(line.isprintable() and len(line) < 500 for line in lines)


def test_the_runs_are_listed_picked_and_sorted(stage: Stage):
    good = stage.solve(stage.task(command("true"), pop())).run
    bad = stage.solve(stage.task(command("true"), name="dry")).run
    listed = stage.call("runs")
    assert listed.returncode == 0, listed.stderr
    assert sorted(line.split()[0] for line in listed.stdout.splitlines()[1:]) == sorted([good, bad])
    told = json.loads(stage.call("runs", "--json", "--sort", "-steps", "--limit", "1").stdout)
    assert [(row["run"], row["outcome"], row["task"]) for row in told] == [(good, "solved", "small")]
    picked = json.loads(stage.call("runs", "--filter", "outcome=model_error", "--json").stdout)
    assert [row["run"] for row in picked] == [bad]


def test_an_empty_list_of_runs_is_reported(stage: Stage):
    assert stage.call("runs").stdout == f"no matching runs in {stage.runs}\n"
    assert stage.call("runs", "--json").stdout == "[]\n"


def test_old_runs_are_pruned_and_a_dry_run_only_says_so(stage: Stage):
    runs = [stage.solve(stage.task(command("true"), pop(), name=f"task-{number}")).run for number in range(2)]
    assert all(row["disk_bytes"] > 4_096 for row in json.loads(stage.call("runs", "--json").stdout))
    assert stage.call("runs", "prune").stdout == "0 of 0 old runs removed, 0.0 MiB\n"
    dry = stage.call("runs", "prune", "--keep-last", "1", "--dry-run")
    assert dry.stdout.startswith(f"would remove {runs[0]} (")
    assert len(stage.left_behind()) == 4
    (row,) = json.loads(stage.call("runs", "prune", "--keep-last", "1", "--json").stdout)
    assert (row["run"], row["removed"], row["why"]) == (runs[0], True, "")
    assert set(stage.left_behind()) == {runs[1]}
    assert stage.call("runs", "prune", "--keep-last", "0").stdout.startswith(f"removed {runs[1]} (")


@pytest.mark.parametrize("flags", [("--older-than", "soon"), ("--keep-last", "-1")])
def test_an_age_or_a_number_that_is_none_is_exit_2(stage: Stage, flags):
    assert stage.call("runs", "prune", *flags).returncode == 2


def test_the_runs_of_a_bench_are_not_pruned(stage: Stage):
    stage.runs.mkdir()
    (stage.root / "ledger.jsonl").write_text("")
    refused = stage.call("runs", "prune")
    assert (refused.returncode, "belong to a bench" in refused.stderr) == (2, True)


def test_a_condition_that_is_none_is_exit_2(stage: Stage):
    wrong = stage.call("runs", "--filter", "solved", "--json")
    assert wrong.returncode == 2
    assert json.loads(wrong.stdout)["outcome"] == "error"
