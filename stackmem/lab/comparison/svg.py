"""SVG drawing: scales, axes and marks. The page's style sheet sets the colors, so that both themes work.

Names are placed next to their points without overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, cos, floor, log10, pi, sin

from msgspec import Struct

CHAR_WIDTH = 6.3
"""Average width of a label's letters in pixels, at a font size of 11.5 pixels."""


class Scale(Struct, frozen=True):
    """A mapping from values to pixels."""

    # low, high: the values at ``start`` and ``end``, both above 0 on a logarithmic scale
    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value. Values beyond an end are drawn at that end."""
        low, high, at = (log10(x) if self.log else x for x in (self.low, self.high, max(value, self.low)))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.start + min(1.0, share) * (self.end - self.start), 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values within the scale."""
        return _log_ticks(self.low, self.high, most) if self.log else _even_ticks(self.low, self.high, most)


class Box(Struct, frozen=True):
    """The plot area of a drawing, in pixels."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float


def log_scale(values: Iterable[float], start: float, end: float, room: float = 0.04) -> Scale:
    """Return a scale around the values above 0, with some room at both ends."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = log10(min(positive)), log10(max(positive))
    spread = max(high - low, 0.2)
    return Scale(10 ** (low - room * spread), 10 ** (high + room * spread), start, end, log=True)


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [value for value in ticks if low <= value <= high]
        if len(ticks) <= most:
            return ticks if len(ticks) > 1 else _even_ticks(low, high, most)
    return ticks[:: ceil(len(ticks) / most)]


def _even_ticks(low: float, high: float, most: int) -> list[float]:
    if high <= low:
        return [low]
    size = 10.0 ** floor(log10((high - low) / most))
    step = next(size * by for by in (1, 2, 5, 10, 20, 50) if (high - low) / (size * by) <= most)
    return [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


class Axis(Struct, frozen=True):
    """A scale with its name and ticks."""

    scale: Scale
    name: str
    ticks: Sequence[tuple[float, str]]  # values that have a line and a text


def axes(box: Box, across: Axis, up: Axis) -> str:
    """Draw the grid with its values and the names of the axes."""
    shapes = []
    for value, text in across.ticks:
        x = across.scale(value)
        shapes.append(line(x, box.top, x, box.bottom, "grid") + label(x, box.bottom + 17, text, "tick", "middle"))
    for value, text in up.ticks:
        y = up.scale(value)
        shapes.append(line(box.left, y, box.right, y, "grid") + label(box.left - 7, y + 4, text, "tick", "end"))
    shapes.append(line(box.left, box.bottom, box.right, box.bottom, "axis"))
    shapes.append(label(box.right, box.bottom + 34, across.name, "axis-name", "end"))
    shapes.append(label(4, 13, up.name, "axis-name", "start"))
    return "".join(shapes)


def drawing(box: Box, name: str, inside: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {box.width:g} {box.height:g}" width="{box.width:g}" height="{box.height:g}" '
        f'role="group" aria-label="{escape(name)}">{inside}</svg>'
    )


def line(x: float, y: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:g}" y1="{y:g}" x2="{x2:g}" y2="{y2:g}"/>'


def path(points: Sequence[tuple[float, float]], kind: str) -> str:
    return f'<path class="{kind}" d="M{"L".join(f"{x:g} {y:g}" for x, y in points)}"/>'


def dot(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>'


_SHAPES = {
    "masking": "-.88,-.88 .88,-.88 .88,.88 -.88,.88", "summary": "0,-1.25 1.25,0 0,1.25 -1.25,0",
    "lookup": "0,-1.2 1.2,.95 -1.2,.95", "frames": "0,1.2 1.2,-.95 -1.2,-.95",
    "stackheap": "0,-1.4 .41,-.57 1.33,-.43 .67,.22 .82,1.13 0,.7 -.82,1.13 -.67,.22 -1.33,-.43 -.41,-.57",
    "other": "-.4,-1.2 .4,-1.2 .4,-.4 1.2,-.4 1.2,.4 .4,.4 .4,1.2 -.4,1.2 -.4,.4 -1.2,.4 -1.2,-.4 -.4,-.4",
}  # fmt: skip
"""Corners of each family's mark. Other families are drawn as a circle."""


def mark(family: str, x: float, y: float, radius: float) -> str:
    """Return the mark of a family. All shapes have about the same size."""
    if family not in _SHAPES:
        return dot(x, y, radius, "dot")
    corners = (pair.split(",") for pair in _SHAPES[family].split())
    points = "L".join(f"{round(x + radius * float(a), 1):g} {round(y + radius * float(b), 1):g}" for a, b in corners)
    return f'<path class="dot" d="M{points}Z"/>'


def chip(family: str, hue: int | None = None) -> str:
    """Return the mark for use next to a name in text. Without a hue it has the text's color."""
    kinds = "chip" if hue is None else f"chip hue-{hue}"
    return f'<svg class="{kinds}" viewBox="-7 -7 14 14" aria-hidden="true">{mark(family, 0, 0, 4.6)}</svg>'


def label(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def linked(target: str, hue: int, number: int, tells: str, inside: str, more: str = "") -> str:
    """Return the marks of a strategy as a link to its trials, with its figures as the tooltip."""
    kinds = " ".join(filter(None, ("strategy", f"hue-{hue}", more)))
    return (
        f'<a class="{kinds}" href="#{target}" data-strategy="{number}"><title>{escape(tells)}</title>{inside}</a>'
    )  # fmt: skip


def clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_HIGH = 13.0
_NEAR = 15.0


class LabelPlace(Struct, frozen=True):
    """The position of a name."""

    # x, y: start of its text on the baseline
    x: float
    y: float
    width: float  # of the text
    led: bool  # whether it is so far from its point that a line connects them

    @property
    def middle(self) -> float:
        return self.y - 4


def place_labels(
    points: Sequence[tuple[float, float]], names: Sequence[str], box: Box, dense: bool
) -> list[LabelPlace | None]:
    """Return a place for each name, earlier ones first. With ``dense``, names without a free place are omitted."""
    areas: list[tuple[float, float, float, float]] = []
    spots = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    places: list[LabelPlace | None] = []
    for (x, y), name in zip(points, names, strict=True):
        width = len(name) * CHAR_WIDTH + 2
        best = min(_candidates(x, y, width), key=lambda candidate: _cost(candidate[0], candidate[1], areas, spots, box))
        position = best[0]
        if dense and _covers(position, areas, box):
            places.append(None)
            continue
        areas.append(_area(position))
        places.append(position)
    return places


def stacked(heights: Sequence[float], top: float, bottom: float, gap: float = 13.0) -> list[float]:
    """Return heights close to the given ones with a gap between each two, which shrinks if room is short."""
    if not heights:
        return []
    gap = min(gap, (bottom - top) / max(1, len(heights) - 1))
    order = sorted(range(len(heights)), key=lambda number: heights[number])
    blocks: list[list[float]] = []  # the sum of the preferred starts of the members, and their number
    for number in order:
        blocks.append([heights[number], 1.0])
        while len(blocks) > 1 and _start(blocks[-2]) + gap * blocks[-2][1] > _start(blocks[-1]):
            wished, count = blocks.pop()
            blocks[-1][0] += wished - gap * blocks[-1][1] * count
            blocks[-1][1] += count
    flat = [_start(block) + gap * number for block in blocks for number in range(int(block[1]))]
    placed = [0.0] * len(heights)
    last = bottom
    for rank in range(len(order) - 1, -1, -1):  # from the bottom up, so that every label stays inside the plot
        last = min(last, flat[rank])
        flat[rank], last = last, last - gap
    for rank, number in enumerate(order):
        placed[number] = round(max(flat[rank], top + gap * rank), 1)
    return placed


def _start(block: list[float]) -> float:
    return block[0] / block[1]


def _candidates(x: float, y: float, width: float) -> list[tuple[LabelPlace, float]]:
    """Return places around a point, each with a penalty for its distance."""
    candidates = [
        (LabelPlace(x + 9, y + 4, width, False), 0.0), (LabelPlace(x - 9 - width, y + 4, width, False), 0.5),
        (LabelPlace(x - width / 2, y - 9, width, False), 1.0), (LabelPlace(x - width / 2, y + 17, width, False), 1.0),
    ]  # fmt: skip
    for radius in (26, 40, 56, 74, 94, 116, 140):
        for turn in range(16):
            angle = 2 * pi * turn / 16
            across, down = x + radius * cos(angle), y + radius * sin(angle)
            remaining = across if cos(angle) > 0.2 else across - width if cos(angle) < -0.2 else across - width / 2
            candidates.append((LabelPlace(remaining, down + 4, width, True), radius / _NEAR))
    return candidates


def _cost(
    position: LabelPlace, far: float, areas: Sequence[tuple[float, ...]], spots: Sequence[tuple[float, ...]], box: Box
) -> float:
    area = _area(position)
    overlap = sum(_overlap(area, other) for other in areas) * 3 + sum(_overlap(area, other) for other in spots) * 2
    return far + overlap + _outside(area, box) * 50


def _covers(position: LabelPlace, areas: Sequence[tuple[float, ...]], box: Box) -> bool:
    area = _area(position)
    return _outside(area, box) > 0 or any(_overlap(area, other) > 4 for other in areas)


def _area(position: LabelPlace) -> tuple[float, float, float, float]:
    return (position.x, position.y - _HIGH + 3, position.x + position.width, position.y + 3)


def _overlap(first: Sequence[float], second: Sequence[float]) -> float:
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _outside(area: Sequence[float], box: Box) -> float:
    beyond = max(0.0, box.left - area[0]) + max(0.0, area[2] - box.width + 2)
    return beyond + max(0.0, box.top - 14 - area[1]) + max(0.0, area[3] - box.bottom)
