"""The tables "published finding, simulated, agrees?" in the docs are what the reader's dials and its trials give."""

import pytest

from benchmarks import published as trials
from stackmem.lab.simulated.dials import PERFECT, ReaderDials, read_dial
from stackmem.lab.simulated.published import CURVES, TOLERANCE, points, table_rows
from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "simulated-model.md"


def test_the_table_in_the_docs_is_current():
    text = PAGE.read_text("utf-8")
    rows = [f"| {' | '.join(row)} |" for row in table_rows()]
    assert [row for row in rows if row not in text] == []
    agreed = sum(point.agrees for point in points())
    assert f"agrees with {agreed} of {len(rows)} figures" in text


def test_a_curve_is_fitted_at_its_last_point_and_every_other_point_is_predicted():
    assert len(list(points())) == sum(len(curve.points) - 1 for curve in CURVES)
    first = next(points())
    assert first.setting == pytest.approx(1 - 0.812)
    assert first.simulated == pytest.approx(1 - 0.188 * 4_000 / 128_000)
    assert all(point.agrees == (abs(point.published - point.simulated) <= TOLERANCE) for point in points())


@pytest.mark.parametrize("setting", [0.19, 1.21, 2.81])
def test_simulated_facts_are_missed_as_often_as_the_curve_says(setting):
    dials, facts, tokens = ReaderDials(long=setting), 4_000, 16_000
    missed = sum(dials.misses(f"k{number}", "v", "1.0", tokens, changed=False) for number in range(facts))
    assert missed / facts == pytest.approx(setting / 8, abs=0.02)
    assert dials.chance(10**9) == 0.9


def test_the_dial_for_long_prompts_may_exceed_one():
    dials = read_dial(PERFECT, "long=2.81")
    assert dials is not None
    assert dials.long == 2.81


def test_the_table_of_trials_in_the_docs_is_current(tmp_path):
    text = PAGE.read_text("utf-8")
    rows = list(trials.table_rows(trials.measured(tmp_path)))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    assert [line for line in lines if line not in text] == []
    agreed = sum(row[-1] == "yes" for row in rows)
    assert f"Trials agree with {agreed} of {len(rows)} findings" in text
    curves = sum(point.agrees for point in points())
    total = len(rows) + len(list(points()))
    assert f"Together: {curves + agreed} of {total} agree" in text


def test_every_finding_has_bounds_by_the_common_rule_and_can_disagree():
    for finding in trials.FINDINGS:
        assert finding.low < finding.high
        assert finding.agrees(finding.low)
        assert not finding.agrees(finding.low - 1)
        assert finding.high == float("inf") or not finding.agrees(finding.high + 1)
    sizes = {finding.text: finding.high / finding.low for finding in trials.FINDINGS if finding.unit in {"", " times"}}
    assert all(size == pytest.approx(trials.FACTOR**2, abs=0.03) for size in sizes.values())


def test_a_trial_that_fails_is_no_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "SETUPS", (trials.Setup("full", 1, 1.0),))
    with pytest.raises(RuntimeError, match="trial 0-assembly failed"):
        trials.measured(tmp_path)


def test_the_tasks_of_the_trials_follow_a_rule_and_not_a_choice():
    families = sorted(trials.WORLDS)
    families.remove("workday")
    assert list(trials.TASKS) == families[::3]
