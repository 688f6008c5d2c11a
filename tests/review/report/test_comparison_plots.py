"""The plots: who is on the frontier, what is fitted, and the position of labels."""

from itertools import pairwise
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.pricing import Price
from stackmem.lab.comparison.anchors import Anchors
from stackmem.lab.comparison.figures import Wants, sections
from stackmem.lab.comparison.plots import fitted_from, frontier, loss_curves, slopes, spots
from stackmem.lab.comparison.results import TrialRow, read_bench
from stackmem.lab.comparison.svg import Box, Scale, log_scale, place_labels, stacked

from .bench_rows import bench, row, zoo

WANTS = Wants(Price(2.0, 10.0, 2.5, 4.0, 0.1, "a test"), "a model")
BOX = Box(560, 400, 46, 542, 30, 354)


def trials(*rows):
    return [TrialRow(one) for one in rows]


def peak(trial: TrialRow) -> float:
    return trial.number("peak_context_tokens")


def test_the_frontier_are_those_that_nobody_beats_in_both(tmp_path):
    made = {"cheap": (100, 0), "good": (1_000, 1), "dearer": (2_000, 1), "dear and bad": (3_000, 0)}
    rows = [
        row(name, seed=seed, bill_output=output, solved=solved if seed else 0)
        for name, (output, solved) in made.items()
        for seed in (0, 1)
    ]
    section = sections(read_bench(bench(tmp_path, rows)), WANTS)[0]
    assert [spot.name for spot in spots(section, WANTS) if spot.leading] == ["cheap", "good"]


def test_without_a_bill_or_a_judgement_there_is_no_spot(tmp_path):
    results = read_bench(bench(tmp_path, [row("a", bill_read=None), row("b", solved=None, outcome="finished")]))
    section = sections(results, WANTS)[0]
    assert spots(section, WANTS) == []
    assert frontier(section, WANTS, Anchors(results), 560) == ""


def test_where_success_does_not_differ_the_bills_are_bars_the_cheapest_first(tmp_path):
    rows = [
        row(name, seed=seed, bill_output=cost) for name, cost in (("more", 9_000), ("less", 100)) for seed in (1, 2)
    ]
    results = read_bench(bench(tmp_path, rows))
    section = sections(results, WANTS)[0]
    drawn = frontier(section, WANTS, Anchors(results), 560)
    assert drawn.count('class="bar"') == 2
    assert "each solved 100 %" in drawn
    assert drawn.index(">less</text>") < drawn.index(">more</text>")
    rows[0] |= {"solved": 0, "outcome": "unsolved"}
    results = read_bench(bench(tmp_path / "differs", rows))
    assert "bar" not in frontier(sections(results, WANTS)[0], WANTS, Anchors(results), 560)


def test_a_plot_names_every_strategy_and_leads_to_its_trials(tmp_path):
    results = read_bench(bench(tmp_path, zoo((60,), 2, ("ledger", "conflict"))))
    section, anchors = sections(results, WANTS)[0], Anchors(results)
    drawn = frontier(section, WANTS, anchors, 1_140)
    for one in section.lines:
        assert f">{one.strategy}</text>" in drawn
        assert f'href="#{anchors.of_line(section, one.strategy)}"' in drawn


def test_an_exponent_is_fitted_over_all_trials():
    rows = [row("full", horizon=horizon, seed=seed, peak_context_tokens=50 * horizon)
            for horizon in (10, 60, 300) for seed in (1, 2)]  # fmt: skip
    (found,) = slopes(trials(*rows), peak)
    assert found.points == ((10, 500), (60, 3_000), (300, 15_000))
    assert found.exponent is not None
    assert found.exponent.value == pytest.approx(1.0)
    assert found.exponent.count == 6


def test_where_there_are_long_runs_the_exponent_is_theirs():
    """The fixed beginning of every prompt would flatten the line for short runs."""
    rows = [row("full", horizon=horizon, peak_context_tokens=peak)
            for horizon, peak in ((10, 9_000), (100, 10_000), (1_000, 100_000))]  # fmt: skip
    (found,) = slopes(trials(*rows), peak)
    assert found.exponent is not None
    assert found.exponent.value == pytest.approx(1.0)
    assert len(found.points) == 3
    assert fitted_from([10, 60, 300]) == 0.0


def test_a_single_horizon_has_no_slope_and_broken_trials_have_no_say():
    assert slopes(trials(row(), row(seed=2)), peak) == []
    assert slopes(trials(row(horizon=10), row(horizon=60, outcome="error")), peak) == []
    assert slopes(trials(row(horizon=None), row(horizon=None, seed=2)), peak) == []


def test_a_run_that_ended_without_a_loss_leaves_the_curve_where_it_ended():
    """Of four runs one loses at step 2; of the remaining three one ends at 5; of the remaining two one loses at 8."""
    rows = [row(seed=1, steps=10, first_loss_step=2), row(seed=2, steps=5), row(seed=3, steps=10, first_loss_step=8),
            row(seed=4, steps=10)]  # fmt: skip
    (found,) = loss_curves(trials(*rows), "first_loss_step")
    assert dict(found.points) == pytest.approx({0: 1.0, 2: 0.75, 5: 0.75, 8: 0.375, 10: 0.375})
    assert found.end == 10


def test_a_strategy_that_loses_nothing_stays_whole_to_its_end():
    rows = [row("full", steps=50), row("window", steps=60, first_loss_step=20)]
    full, window = loss_curves(trials(*rows), "first_loss_step")
    assert (full.points, full.end) == (((0.0, 1.0),), 50)
    assert window.points[-1] == (20, 0.0)


def test_without_any_loss_there_is_no_curve():
    assert loss_curves(trials(row(), row("window")), "first_loss_step") == []
    assert loss_curves(trials(row(outcome="error", first_loss_step=3)), "first_loss_step") == []


NAMES = st.lists(st.text("abc_", min_size=1, max_size=20), min_size=1, max_size=21)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_names_that_must_not_cover_one_another_do_not(data):
    names = data.draw(NAMES)
    across, up = st.floats(BOX.left, BOX.right), st.floats(BOX.top, BOX.bottom)
    points = [(data.draw(across), data.draw(up)) for _ in names]
    places = [place for place in place_labels(points, names, BOX, dense=True) if place is not None]
    assert places
    for number, one in enumerate(places):
        for other in places[number + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            high = 13 - abs(one.y - other.y)
            assert min(wide, high) <= 0 or wide * high <= 4


@given(st.lists(st.floats(0, 400), max_size=25))
def test_names_at_the_side_keep_their_order_and_their_distance(wished):
    placed = stacked(wished, 30, 370)
    gap = min(13.0, 340 / max(1, len(wished) - 1))
    assert all(29.9 <= at <= 370.1 for at in placed)
    order = sorted(range(len(wished)), key=lambda number: wished[number])
    for one, other in pairwise(order):
        assert placed[other] - placed[one] >= gap - 0.2


def test_names_with_room_stand_where_they_belong():
    assert stacked([50, 100, 300], 30, 370) == [50, 100, 300]
    assert stacked([100, 100], 30, 370) == [93.5, 106.5]


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=9))
def test_a_logarithmic_scale_holds_its_values_and_has_ticks(values):
    scale = log_scale(values, 0, 100)
    assert all(0 <= scale(value) <= 100 for value in values)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 7
    assert all(isfinite(tick) and scale.low <= tick * 1.001 and tick <= scale.high * 1.001 for tick in ticks)


def test_ticks_are_round():
    assert log_scale([1, 1_000], 0, 100).ticks() == [1, 10, 100, 1_000]
    assert Scale(0.0, 1.0, 0, 100).ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert Scale(5.0, 5.0, 0, 100).ticks() == [5.0]
