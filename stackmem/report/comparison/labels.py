"""Where the names stand in a plot: beside their points, none over another."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from msgspec import Struct

from .svg import CHAR_WIDTH, Box

_HIGH = 13.0
_NEAR = 15.0


class LabelPlace(Struct, frozen=True):
    """A name's place.

    Attributes:
        x, y: Where its text begins, on its base line.
        width: Of the text.
        led: It stands so far from its point that a line leads to it.
    """

    x: float
    y: float
    width: float
    led: bool

    @property
    def middle(self) -> float:
        return self.y - 4


def beside(
    points: Sequence[tuple[float, float]], names: Sequence[str], box: Box, dense: bool
) -> list[LabelPlace | None]:
    """A place for each name, the first ones first; with ``dense`` a name without a free place is left out."""
    taken: list[tuple[float, float, float, float]] = []
    spots = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    places: list[LabelPlace | None] = []
    for (x, y), name in zip(points, names, strict=True):
        width = len(name) * CHAR_WIDTH + 2
        found = min(_candidates(x, y, width), key=lambda one: _cost(one[0], one[1], taken, spots, box))
        place = found[0]
        if dense and _covers(place, taken, box):
            places.append(None)
            continue
        taken.append(_area(place))
        places.append(place)
    return places


def stacked(heights: Sequence[float], top: float, bottom: float, gap: float = 13.0) -> list[float]:
    """Heights as near to those wished for as a gap between each two allows; squeezed where there is no room."""
    if not heights:
        return []
    gap = min(gap, (bottom - top) / max(1, len(heights) - 1))
    order = sorted(range(len(heights)), key=lambda number: heights[number])
    blocks: list[list[float]] = []  # the sum of where its members would have the block begin, and their number
    for number in order:
        blocks.append([heights[number], 1.0])
        while len(blocks) > 1 and _start(blocks[-2]) + gap * blocks[-2][1] > _start(blocks[-1]):
            wished, count = blocks.pop()
            blocks[-1][0] += wished - gap * blocks[-1][1] * count
            blocks[-1][1] += count
    flat = [_start(block) + gap * number for block in blocks for number in range(int(block[1]))]
    placed = [0.0] * len(heights)
    last = bottom
    for rank in range(len(order) - 1, -1, -1):  # from below, so that none ends under the plot
        last = min(last, flat[rank])
        flat[rank], last = last, last - gap
    for rank, number in enumerate(order):
        placed[number] = round(max(flat[rank], top + gap * rank), 1)
    return placed


def _start(block: list[float]) -> float:
    return block[0] / block[1]


def _candidates(x: float, y: float, width: float) -> list[tuple[LabelPlace, float]]:
    """Places around a point, each with how far out of the way it is."""
    found = [
        (LabelPlace(x + 9, y + 4, width, False), 0.0), (LabelPlace(x - 9 - width, y + 4, width, False), 0.5),
        (LabelPlace(x - width / 2, y - 9, width, False), 1.0), (LabelPlace(x - width / 2, y + 17, width, False), 1.0),
    ]  # fmt: skip
    for radius in (26, 40, 56, 74, 94, 116, 140):
        for turn in range(16):
            angle = 2 * pi * turn / 16
            across, down = x + radius * cos(angle), y + radius * sin(angle)
            left = across if cos(angle) > 0.2 else across - width if cos(angle) < -0.2 else across - width / 2
            found.append((LabelPlace(left, down + 4, width, True), radius / _NEAR))
    return found


def _cost(
    place: LabelPlace, far: float, taken: Sequence[tuple[float, ...]], spots: Sequence[tuple[float, ...]], box: Box
) -> float:
    area = _area(place)
    over = sum(_overlap(area, other) for other in taken) * 3 + sum(_overlap(area, other) for other in spots) * 2
    return far + over + _outside(area, box) * 50


def _covers(place: LabelPlace, taken: Sequence[tuple[float, ...]], box: Box) -> bool:
    area = _area(place)
    return _outside(area, box) > 0 or any(_overlap(area, other) > 4 for other in taken)


def _area(place: LabelPlace) -> tuple[float, float, float, float]:
    return (place.x, place.y - _HIGH + 3, place.x + place.width, place.y + 3)


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _outside(area: Sequence[float], box: Box) -> float:
    beyond = max(0.0, box.left - area[0]) + max(0.0, area[2] - box.width + 2)
    return beyond + max(0.0, box.top - 14 - area[1]) + max(0.0, area[3] - box.bottom)
