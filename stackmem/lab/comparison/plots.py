"""The plots: cost against success, growth with the horizon, and how long needed facts stay visible.

Cost: the line joins the strategies that no other beats in both. Growth: both axes are logarithmic, and the exponent is
fitted over all trials. Visibility: the share of trials without a loss, by step. A run that ends without a loss does not
prove that there would have been none, so it leaves the curve at its end (Kaplan and Meier, 1958; scipy.stats.ecdf).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import ceil, inf, isfinite
from statistics import fmean
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from stackmem.lab.bench.intervals import Interval, library, power_law

from .anchors import Anchors, Family, leads
from .columns import as_text, range_text
from .figures import Line, Section, Wants, bill_name
from .results import TrialRow
from .svg import (
    Axis,
    Box,
    LabelPlace,
    Scale,
    axes,
    clipped,
    drawing,
    label,
    line,
    linked,
    log_scale,
    mark,
    path,
    place_labels,
    stacked,
)

_LONG = 100.0
_MAX_TICKS = 12
HORIZON = "horizon, steps of necessary work"


class Slope(Struct, frozen=True):
    """The figures of a strategy over the horizons, or over the requests of a conversation."""

    name: str
    points: tuple[tuple[float, float], ...]  # the horizon or the number of the request, and the mean over its trials
    exponent: Interval | None  # of the fit over the trials; None with one horizon


def slopes(trials: Sequence[TrialRow], value: Callable[[TrialRow], float]) -> list[Slope]:
    """Return the slopes of the strategies that have figures at two or more horizons."""
    by_strategy: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        figure = value(trial)
        if not trial.failed and isfinite(trial.horizon) and isfinite(figure) and figure > 0 and trial.horizon > 0:
            by_strategy.setdefault(trial.strategy, []).append((trial.horizon, figure))
    start = fitted_from(x for points in by_strategy.values() for x, _ in points)
    return [
        Slope(name, _means(points), power_law([(x, y) for x, y in points if x >= start]))
        for name, points in by_strategy.items()
        if len(_means(points)) > 1
    ]


def fitted_from(horizons: Iterable[float]) -> float:
    """Return the horizon from which the exponent is fitted. Below, the fixed start of each prompt bends the line."""
    return _LONG if len({horizon for horizon in horizons if horizon >= _LONG}) > 1 else 0.0


def _means(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple((horizon, fmean(y for x, y in points if x == horizon)) for horizon in sorted({x for x, _ in points}))


def slope_plot(
    all_slopes: Sequence[Slope],
    says: str,
    group: tuple[str, str],
    wants: Wants,
    anchors: Anchors,
    width: int,
    axis: str = HORIZON,
) -> str:
    """Return the plot, with name and exponent at the end of each line.

    ``says`` describes the measured value and ``axis`` the horizontal axis.
    """
    if not all_slopes:
        return ""
    names = {
        slope.name: f"{clipped(slope.name, 15 if width < 500 else 24)} {_exponent(slope, width)}"
        for slope in all_slopes
    }
    box = _box(names.values(), 50, width)
    across = log_scale([x for slope in all_slopes for x, _ in slope.points], box.left, box.right, 0.03)
    up = log_scale([y for slope in all_slopes for _, y in slope.points], box.bottom, box.top, 0.04)
    values = sorted({x for slope in all_slopes for x, _ in slope.points})
    ticks = values if len(values) <= _MAX_TICKS else across.ticks()
    word = axis.partition(",")[0]
    shapes = [
        axes(
            box,
            Axis(across, axis, [(value, f"{value:g}") for value in ticks]),
            Axis(up, says, [(value, _tick(value, says)) for value in up.ticks()]),
        )
    ]
    lines = []
    for slope in all_slopes:
        points = [(across(x), up(y)) for x, y in slope.points]
        marks = path(points, "curve") + "".join(mark(anchors.family(slope.name), x, y, 3) for x, y in points)
        tells = f"{slope.name}: grows with the {word} to the power of {_exponent(slope, 2_000)}"
        lines.append(_DrawnLine(slope.name, names[slope.name], (points[-1][0] + 4, points[-1][1]), marks, tells))
    shapes += _labeled_lines(lines, box, group, wants, anchors)
    return drawing(box, f"{says} against the {word}", "".join(shapes))


def _exponent(slope: Slope, width: int) -> str:
    if slope.exponent is None:
        return ""
    value, low, high = slope.exponent.value, slope.exponent.low, slope.exponent.high
    if low is None or high is None or width < 500:
        return _two(value)
    return f"{_two(value)} ({_two(low)}{' … ' if low < 0 else '–'}{_two(high)})"


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _tick(value: float, says: str) -> str:
    return f"${value:g}" if "USD" in says else as_text(value, "tokens")


class Curve(Struct, frozen=True):
    """The survival curve of a strategy."""

    name: str
    points: tuple[tuple[float, float], ...]  # step, and the share without a loss from that step on; starts at step 0
    end: float  # the last step of its longest run
    trials: int


def loss_curves(trials: Sequence[TrialRow], column: str) -> list[Curve]:
    """Return one curve per strategy; empty if losses were not measured or never occurred.

    Args:
        column: ``first_loss_step``: lost from the prompt. ``first_gone_step``: lost from every heap too.
    """
    # Losses are not measured across several sessions in a row.
    looked = [trial for trial in trials if trial.text("session") != "new"]
    counted = [trial for trial in looked if not trial.failed and trial.number("steps") > 0]
    if not any(isfinite(trial.number(column)) for trial in counted):
        return []
    by_strategy: dict[str, list[TrialRow]] = {}
    for trial in counted:
        by_strategy.setdefault(trial.strategy, []).append(trial)
    return [_curve(name, strategy_trials, column) for name, strategy_trials in by_strategy.items()]


def _curve(name: str, trials: Sequence[TrialRow], column: str) -> Curve:
    losses = [trial.number(column) for trial in trials]
    ends = [trial.number("steps") for trial in trials]
    lost = [loss for loss in losses if isfinite(loss)]
    censored = [end for loss, end in zip(losses, ends, strict=True) if not isfinite(loss)]
    points = [(0.0, 1.0)]
    if lost:
        survival = library().ecdf(library().CensoredData(uncensored=lost, right=censored)).sf
        points += [(float(x), float(y)) for x, y in zip(survival.quantiles, survival.probabilities, strict=True)]
    return Curve(name, tuple(points), max(*ends, *lost, 1.0), len(trials))


def loss_plot(
    curves: Sequence[Curve], title: str, group: tuple[str, str], wants: Wants, anchors: Anchors, width: int
) -> str:
    """Return the plot, with names at the ends of the curves."""
    if not curves:
        return ""
    names = {curve.name: f"{clipped(curve.name, 16 if width < 500 else 24)} {_share(curve)}" for curve in curves}
    box = _box(names.values(), 46, width)
    across = Scale(0.0, max(curve.end for curve in curves), box.left, box.right)
    up = Scale(0.0, 1.0, box.bottom, box.top + 8)
    steps = Axis(across, "step", [(value, f"{value:g}") for value in across.ticks()])
    shapes = [
        axes(box, steps, Axis(up, "trials without a loss so far", [(v, as_text(v, "share")) for v in up.ticks()]))
    ]
    lines = []
    for curve in curves:
        corners = [(across(0), up(1.0))]
        for step, share in curve.points[1:]:
            corners += [(across(step), corners[-1][1]), (across(step), up(share))]
        corners.append((across(curve.end), corners[-1][1]))
        last = (box.right, corners[-1][1])
        marks = path(corners, "curve") + line(*corners[-1], *last, "over")
        tells = f"{curve.name}: {_share(curve)} of {curve.trials} trials lost no fact that they used later"
        lines.append(_DrawnLine(curve.name, names[curve.name], last, marks, tells))
    shapes += _labeled_lines(lines, box, group, wants, anchors)
    return drawing(box, f"Trials without a loss by step, {title}", "".join(shapes))


def _share(curve: Curve) -> str:
    return as_text(curve.points[-1][1], "share")


def _box(names: Collection[str], remaining: float, width: int) -> Box:
    """Return a box with room for every line, and for the names at their ends."""
    height = max(400, 15 * len(names) + 90)
    return Box(width, height, remaining, width - max(map(len, names)) * 6.4 - 26, 30, height - 46)


class _DrawnLine(NamedTuple):
    """The line of a strategy. ``last`` is where the connection to its name starts."""

    strategy: str
    name: str
    last: tuple[float, float]
    marks: str
    tells: str


def _labeled_lines(
    lines: Sequence[_DrawnLine], box: Box, group: tuple[str, str], wants: Wants, anchors: Anchors
) -> Iterator[str]:
    """Yield the lines with their names at the end, with the leading ones drawn last, on top."""
    ends = stacked([drawn_line.last[1] for drawn_line in lines], box.top + 4, box.bottom - 4, 14)
    for drawn_line, at in sorted(
        zip(lines, ends, strict=True), key=lambda pair: leads(pair[0].strategy, wants.baseline)
    ):
        marks = drawn_line.marks + line(*drawn_line.last, box.right + 12, at, "leader")
        marks += label(box.right + 15, at + 4, drawn_line.name, "name")
        target, hue = anchors.of_strategy(group, drawn_line.strategy), anchors.hue(drawn_line.strategy)
        strong = "leading" if leads(drawn_line.strategy, wants.baseline) else ""
        yield linked(target, hue, anchors.strategy(drawn_line.strategy), drawn_line.tells, marks, strong)


class Spot(Struct, frozen=True):
    """The position of a strategy in the plot."""

    name: str
    cost: Interval
    solved: Interval
    leading: bool


def spots(section: Section, wants: Wants) -> list[Spot]:
    """Return the strategies with a bill and a success rate, leading ones first."""
    candidates = []
    for strategy_line in section.lines:
        cost, solved = strategy_line.figures[bill_name(wants.read_multiple)], strategy_line.figures["solved"]
        if cost is not None and solved is not None and cost.value > 0:
            candidates.append((strategy_line, cost, solved))
    leading = _leading(candidates)
    result = [
        Spot(strategy_line.strategy, cost, solved, strategy_line.strategy in leading)
        for strategy_line, cost, solved in candidates
    ]
    return sorted(result, key=lambda spot: (not spot.leading, spot.name != wants.baseline, spot.cost.value))


def _leading(candidates: list[tuple[Line, Interval, Interval]]) -> set[str]:
    """Return the strategies on the frontier: a cheaper or equally cheap one never solves as much."""
    best, leading = -inf, set()
    for strategy_line, _, solved in sorted(candidates, key=lambda each: (each[1].value, -each[2].value)):
        if solved.value > best:
            best = solved.value
            leading.add(strategy_line.strategy)
    return leading


def frontier(section: Section, wants: Wants, anchors: Anchors, width: int) -> str:
    """Return the plot, or an empty string if no strategy has both figures."""
    points_shown = spots(section, wants)
    if not points_shown:
        return ""
    if solved_alike(points_shown):
        return _bars(points_shown, section, wants, anchors, width)
    dense = width < 500
    box = Box(width, 400 if width < 900 else 460, 46, width - 18, 30, (400 if width < 900 else 460) - 46)
    across = log_scale([spot.cost.value for spot in points_shown], box.left, box.right, 0.1)
    lowest = min(spot.solved.value for spot in points_shown)
    up = Scale(min(0.5, max(0.0, ceil(lowest * 10 - 1.5) / 10)), 1.0, box.bottom, box.top + 12)
    bills = Axis(across, f"mean bill of a trial, USD, reads at {wants.read_multiple:g}", _dollars(across))
    solved = Axis(up, "solved", [(value, as_text(value, "share")) for value in up.ticks()])
    shapes = [axes(box, bills, solved)]
    front = sorted((across(spot.cost.value), up(spot.solved.value)) for spot in points_shown if spot.leading)
    shapes.append(path(_steps(front, box), "frontier"))
    points = [(across(spot.cost.value), up(spot.solved.value)) for spot in points_shown]
    names = [clipped(spot.name, 16 if dense else 34) for spot in points_shown]
    placed = list(zip(points_shown, points, names, place_labels(points, names, box, dense), strict=True))
    for spot, point, name, label_place in reversed(placed):  # the leading ones are drawn last, on top
        marks = _marks(spot, anchors.family(spot.name), point, across, up) + _label(
            point, name, label_place, spot.leading
        )
        target = anchors.of_line(section, spot.name)
        kind = "leading" if spot.leading else ""
        shapes.append(
            linked(target, anchors.hue(spot.name), anchors.strategy(spot.name), _tells(spot), marks, kind)
        )  # fmt: skip
    return drawing(box, f"Bill against success, {section.title}", "".join(shapes))


def solved_alike(section_spots: Sequence[Spot]) -> bool:
    """Return whether all success rates are equal, so that only the bills differ."""
    return len({spot.solved.value for spot in section_spots}) == 1


_BAR = 28.0


def _bars(section_spots: Sequence[Spot], section: Section, wants: Wants, anchors: Anchors, width: int) -> str:
    """Draw the bills as bars, cheapest first, if success does not differ. A plane would show only a row of dots."""
    names = {spot.name: clipped(spot.name, 16 if width < 500 else 34) for spot in section_spots}
    box = Box(width, 0, max(map(len, names.values())) * 6.8 + 29, width - 78, 24, 24 + _BAR * len(section_spots))
    box = replace(box, height=box.bottom + 46)
    across = Scale(0.0, max(spot.cost.high or spot.cost.value for spot in section_spots), box.left, box.right)
    bills = Axis(across, f"mean bill of a trial, USD, reads at {wants.read_multiple:g}", _dollars(across))
    solved = f"each solved {as_text(section_spots[0].solved.value, 'share')}"
    shapes = [axes(box, bills, Axis(Scale(0.0, 1.0, box.bottom, box.top), solved, []))]
    for number, spot in enumerate(sorted(section_spots, key=lambda each: each.cost.value)):
        y, low, high = box.top + _BAR * (number + 0.5), spot.cost.low, spot.cost.high
        marks = line(box.left, y, across(spot.cost.value), y, "bar")
        if low is not None and high is not None:
            marks += line(across(low), y, across(high), y, "reach")
        marks += mark(anchors.family(spot.name), box.left - 9, y, 4)
        marks += label(box.left - 19, y + 4, names[spot.name], "name", "end")
        marks += label(box.right + 8, y + 4, f"${as_text(spot.cost.value, 'usd')}", "tick")
        target = anchors.of_line(section, spot.name)
        shapes.append(linked(target, anchors.hue(spot.name), anchors.strategy(spot.name), _tells(spot), marks))
    return drawing(box, f"Bills, {section.title}", "".join(shapes))


def _dollars(scale: Scale) -> list[tuple[float, str]]:
    return [(value, f"${value:g}") for value in scale.ticks()]


def _steps(front: list[tuple[float, float]], box: Box) -> list[tuple[float, float]]:
    """Return the frontier as steps: the best rate stays until a more expensive strategy solves more."""
    steps = [(front[0][0], box.bottom)]
    for x, y in front:
        steps += [(x, steps[-1][1]), (x, y)]
    return [*steps, (box.right, front[-1][1])]


def _marks(spot: Spot, family: Family, point: tuple[float, float], across: Scale, up: Scale) -> str:
    x, y = point
    reach = []
    if spot.solved.low is not None and spot.solved.high is not None:
        reach.append(line(x, up(spot.solved.low), x, up(spot.solved.high), "reach"))
    if spot.cost.low is not None and spot.cost.high is not None:
        reach.append(line(across(spot.cost.low), y, across(spot.cost.high), y, "reach"))
    return "".join(reach) + mark(family, x, y, 5.5 if spot.leading else 4)


def _label(point: tuple[float, float], name: str, position: LabelPlace | None, leading: bool) -> str:
    if position is None:
        return ""
    led = ""
    if position.led:
        near = min((position.x, position.x + position.width), key=lambda x: abs(x - point[0]))
        end = position.x + position.width / 2 if position.x < point[0] < position.x + position.width else near
        led = line(
            *point, end, position.middle + (0 if end == near else 6 if position.middle < point[1] else -6), "leader"
        )
    return led + label(position.x, position.y, name, "name strong" if leading else "name")


def _tells(spot: Spot) -> str:
    cost = f"${as_text(spot.cost.value, 'usd')} ({range_text(spot.cost, 'usd')}) a trial"
    solved = f"solved {as_text(spot.solved.value, 'share')} ({range_text(spot.solved, 'share')})"
    return f"{spot.name}: {solved}, {cost}" + (", on the frontier" if spot.leading else "")
