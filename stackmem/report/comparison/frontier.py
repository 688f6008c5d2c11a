"""Cost against success: who is worth its bill, with the line of those that nobody beats in both."""

from __future__ import annotations

from math import ceil, inf

from msgspec import Struct

from stackmem.bench.intervals import Interval

from .anchors import Anchors
from .columns import as_text, range_text
from .figures import Line, Section, Wants, bill_name
from .labels import LabelPlace, beside
from .svg import Axis, Box, Scale, axes, clipped, dot, drawing, label, line, linked, log_scale, path


class Spot(Struct, frozen=True):
    """A strategy in the plane."""

    name: str
    cost: Interval
    solved: Interval
    leading: bool


def spots(section: Section, wants: Wants) -> list[Spot]:
    """The strategies of a section that have a bill and were judged; leading ones first."""
    found = []
    for one in section.lines:
        cost, solved = one.figures[bill_name(wants.read_multiple)], one.figures["solved"]
        if cost is not None and solved is not None and cost.value > 0:
            found.append((one, cost, solved))
    leading = _leading(found)
    made = [Spot(one.strategy, cost, solved, one.strategy in leading) for one, cost, solved in found]
    return sorted(made, key=lambda spot: (not spot.leading, spot.name != wants.baseline, spot.cost.value))


def _leading(found: list[tuple[Line, Interval, Interval]]) -> set[str]:
    """Those that no other one beats: none as cheap solves more, none that solves as much is cheaper."""
    best, leading = -inf, set()
    for one, _, solved in sorted(found, key=lambda each: (each[1].value, -each[2].value)):
        if solved.value > best:
            best = solved.value
            leading.add(one.strategy)
    return leading


def frontier(section: Section, wants: Wants, anchors: Anchors, width: int) -> str:
    """The plot, or nothing where no strategy has both figures."""
    shown = spots(section, wants)
    if not shown:
        return ""
    dense = width < 500
    box = Box(width, 400 if width < 900 else 460, 46, width - 18, 30, (400 if width < 900 else 460) - 46)
    across = log_scale([spot.cost.value for spot in shown], box.left, box.right, 0.1)
    lowest = min(spot.solved.value for spot in shown)
    up = Scale(min(0.5, max(0.0, ceil(lowest * 10 - 1.5) / 10)), 1.0, box.bottom, box.top + 12)
    bills = Axis(across, f"mean bill of a trial, USD, reads at {wants.read_multiple:g}", _dollars(across))
    solved = Axis(up, "solved", [(value, as_text(value, "share")) for value in up.ticks()])
    drawn = [axes(box, bills, solved)]
    front = sorted((across(spot.cost.value), up(spot.solved.value)) for spot in shown if spot.leading)
    drawn.append(path(_steps(front, box), "frontier"))
    points = [(across(spot.cost.value), up(spot.solved.value)) for spot in shown]
    names = [clipped(spot.name, 16 if dense else 34) for spot in shown]
    placed = list(zip(shown, points, names, beside(points, names, box, dense), strict=True))
    for spot, point, name, place in reversed(placed):  # the leading ones over the others
        marks = _marks(spot, point, across, up) + _named(point, name, place, spot.leading)
        target = anchors.of_line(section, spot.name)
        kind = "leading" if spot.leading else ""
        drawn.append(
            linked(target, anchors.family(spot.name), anchors.strategy(spot.name), _tells(spot), marks, kind)
        )  # fmt: skip
    return drawing(box, f"Bill against success, {section.title}", "".join(drawn))


def _dollars(scale: Scale) -> list[tuple[float, str]]:
    return [(value, f"${value:g}") for value in scale.ticks()]


def _steps(front: list[tuple[float, float]], box: Box) -> list[tuple[float, float]]:
    """What the best is for at most a bill: it stays until a dearer one solves more."""
    steps = [(front[0][0], box.bottom)]
    for x, y in front:
        steps += [(x, steps[-1][1]), (x, y)]
    return [*steps, (box.right, front[-1][1])]


def _marks(spot: Spot, point: tuple[float, float], across: Scale, up: Scale) -> str:
    x, y = point
    reach = []
    if spot.solved.low is not None and spot.solved.high is not None:
        reach.append(line(x, up(spot.solved.low), x, up(spot.solved.high), "reach"))
    if spot.cost.low is not None and spot.cost.high is not None:
        reach.append(line(across(spot.cost.low), y, across(spot.cost.high), y, "reach"))
    return "".join(reach) + dot(x, y, 5.5 if spot.leading else 4, "dot")


def _named(point: tuple[float, float], name: str, place: LabelPlace | None, leading: bool) -> str:
    if place is None:
        return ""
    led = ""
    if place.led:
        near = min((place.x, place.x + place.width), key=lambda x: abs(x - point[0]))
        end = place.x + place.width / 2 if place.x < point[0] < place.x + place.width else near
        led = line(*point, end, place.middle + (0 if end == near else 6 if place.middle < point[1] else -6), "leader")
    return led + label(place.x, place.y, name, "name strong" if leading else "name")


def _tells(spot: Spot) -> str:
    cost = f"${as_text(spot.cost.value, 'usd')} ({range_text(spot.cost, 'usd')}) a trial"
    solved = f"solved {as_text(spot.solved.value, 'share')} ({range_text(spot.solved, 'share')})"
    return f"{spot.name}: {solved}, {cost}" + (", on the frontier" if spot.leading else "")
