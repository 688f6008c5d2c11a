"""The table "published finding, simulated, agrees?" in the docs is what the reader's dials give."""

import pytest

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
