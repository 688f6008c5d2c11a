"""What grows with the horizon, and how fast: both axes logarithmic, the exponent fitted over all trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

from msgspec import Struct

from stackmem.bench.intervals import Interval, mean, power_law

from .anchors import Anchors, leads
from .columns import as_text
from .figures import Wants
from .labels import stacked
from .results import TrialRow
from .svg import Axis, Box, axes, clipped, dot, drawing, label, line, linked, log_scale, path

_LONG = 100.0


class Slope(Struct, frozen=True):
    """A strategy over the horizons.

    Attributes:
        points: Horizon and mean over its trials.
        exponent: Of the fit over the trials; None with one horizon.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    exponent: Interval | None


def slopes(trials: Sequence[TrialRow], value: Callable[[TrialRow], float]) -> list[Slope]:
    """Each strategy that has figures at two horizons at least."""
    mine: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        found = value(trial)
        if not trial.failed and isfinite(trial.horizon) and isfinite(found) and found > 0 and trial.horizon > 0:
            mine.setdefault(trial.strategy, []).append((trial.horizon, found))
    start = fitted_from(x for points in mine.values() for x, _ in points)
    return [
        Slope(name, _means(points), power_law([(x, y) for x, y in points if x >= start]))
        for name, points in mine.items()
        if len(_means(points)) > 1
    ]


def fitted_from(horizons: Iterable[float]) -> float:
    """The horizon from which on an exponent is fitted: what a prompt holds at its start bends the line below it."""
    return _LONG if len({horizon for horizon in horizons if horizon >= _LONG}) > 1 else 0.0


def _means(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    found = []
    for horizon in sorted({x for x, _ in points}):
        middle = mean([y for x, y in points if x == horizon])
        if middle is not None:
            found.append((horizon, middle.value))
    return tuple(found)


def slope_plot(
    shown: Sequence[Slope], says: str, group: tuple[str, str], wants: Wants, anchors: Anchors, width: int
) -> str:
    """The plot; ``says`` is what is measured. Each line's name stands at its end, with its exponent."""
    if not shown:
        return ""
    names = {
        slope.name: f"{clipped(slope.name, 15 if width < 500 else 24)} {_exponent(slope, width)}" for slope in shown
    }
    side = max(len(text) for text in names.values()) * 6.4 + 26
    height = max(400, 15 * len(shown) + 90)
    box = Box(width, height, 50, width - side, 30, height - 46)
    across = log_scale([x for slope in shown for x, _ in slope.points], box.left, box.right, 0.03)
    up = log_scale([y for slope in shown for _, y in slope.points], box.bottom, box.top, 0.04)
    horizons = sorted({x for slope in shown for x, _ in slope.points})
    drawn = [
        axes(
            box,
            Axis(across, "horizon, steps of necessary work", [(value, f"{value:g}") for value in horizons]),
            Axis(up, says, [(value, _tick(value, says)) for value in up.ticks()]),
        )
    ]
    ends = stacked([up(slope.points[-1][1]) for slope in shown], box.top + 4, box.bottom - 4, 14)
    ordered = sorted(zip(shown, ends, strict=True), key=lambda pair: leads(pair[0].name, wants.baseline))
    for slope, at in ordered:
        points = [(across(x), up(y)) for x, y in slope.points]
        marks = path(points, "curve") + "".join(dot(x, y, 3, "dot") for x, y in points)
        marks += line(points[-1][0] + 4, points[-1][1], box.right + 12, at, "leader")
        marks += label(box.right + 15, at + 4, names[slope.name], "name")
        target = anchors.of_strategy(group, slope.name)
        strong = "leading" if leads(slope.name, wants.baseline) else ""
        tells = f"{slope.name}: grows with the horizon to the power of {_exponent(slope, 2_000)}"
        drawn.append(linked(target, anchors.family(slope.name), anchors.strategy(slope.name), tells, marks, strong))
    return drawing(box, f"{says} against the horizon", "".join(drawn))


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
