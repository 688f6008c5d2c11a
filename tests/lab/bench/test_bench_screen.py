"""Tests for the table at the end of a bench."""

import pytest

from stackmem.lab.bench.screen import strategy_lines


@pytest.mark.parametrize("ended", [("full", "stack", "full"), ("stack", "full", "full")])
def test_strategies_stand_as_they_were_planned_and_not_as_their_trials_ended(ended):
    rows = [{"strategy": name, "model": "sim/a", "outcome": "solved", "solved": 1} for name in ended]
    lines = strategy_lines(rows, ["full", "stack"])
    assert [line.split()[:2] for line in lines] == [["strategy", "trials"], ["full", "2"], ["stack", "1"]]


def test_strategies_missing_from_the_plan_come_last():
    rows = [{"strategy": name, "model": "sim/a", "outcome": "error"} for name in ("older", "full")]
    assert [line.split()[0] for line in strategy_lines(rows, ["full"])] == ["strategy", "full", "older"]
