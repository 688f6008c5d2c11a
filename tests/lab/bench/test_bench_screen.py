"""Tests for the table at the end of a bench."""

import pytest

from stackmem.lab.bench.ledger import MEMORY_COLUMNS
from stackmem.lab.bench.screen import bench_answer, strategy_lines


@pytest.mark.parametrize("ended", [("full", "stack", "full"), ("stack", "full", "full")])
def test_strategies_stand_as_they_were_planned_and_not_as_their_trials_ended(ended):
    rows = [{"strategy": name, "model": "sim/a", "outcome": "solved", "solved": 1} for name in ended]
    lines = strategy_lines(rows, ["full", "stack"])
    assert [line.split()[:2] for line in lines] == [["strategy", "trials"], ["full", "2"], ["stack", "1"]]


def test_strategies_missing_from_the_plan_come_last():
    rows = [{"strategy": name, "model": "sim/a", "outcome": "error"} for name in ("older", "full")]
    assert [line.split()[0] for line in strategy_lines(rows, ["full"])] == ["strategy", "full", "older"]


def judged(name, solved, bill):
    outcome = "solved" if solved else "unsolved"
    return {
        "strategy": name,
        "model": "sim/a",
        "outcome": outcome,
        "solved": solved,
        "bill_uncached": 1,
        "bill_usd": bill,
    }


def test_the_best_strategy_comes_first_and_the_answer_names_it():
    rows = [judged("full", 1, 0.3), judged("mask", 1, 0.2), judged("window", 0, 0.1)]
    names = [row["strategy"] for row in rows]
    assert [line.split()[0] for line in strategy_lines(rows, names)] == ["strategy", "mask", "full", "window"]
    why = "costs least of the strategies that solved the most"
    assert bench_answer(rows, names) == f"mask {why}: it solved 100% of 1 trial for $0.2000 a trial."
    assert bench_answer(rows[1:], names).startswith("mask solved the most: it solved 100%")
    assert bench_answer(rows[:1], names) == "full solved 100% of 1 trial for $0.3000 a trial."
    assert bench_answer([], names) == bench_answer([{**rows[0], "outcome": "error"}], names) == ""


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_table_keeps_the_answer_on_a_narrow_terminal(width):
    lines = strategy_lines([judged("stackheap:index=none", 1, 0.3)], [], width)
    assert all(len(line) <= width for line in lines)
    assert "$0.3000" in lines[1]
    assert "100%" in lines[1]


def test_a_finished_bench_shows_peaks_from_the_columns_that_are_kept_in_memory():
    row = judged("full", 1, 0.3) | {"bill_uncached": 0, "peak_context_tokens": 14_082, "model_seconds": 1.0}
    (_, line) = strategy_lines([{name: row[name] for name in MEMORY_COLUMNS if name in row}], ["full"])
    assert line.split()[-1] == "14,082"
