"""Compares the dials of the reader with published losses of real models.

A curve is fitted at one published point, and the other points are then predicted. The reader agrees if the prediction
is within five points. A curve with a single dial can disagree; the table says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .dials import FULL_LENGTH_TOKENS, ReaderDials

TOLERANCE = 0.05
"""Largest difference in the share of right answers that counts as agreement."""


class PublishedCurve(Struct, frozen=True):
    """The share of right answers of one model, at several sizes. The dial is fitted at the last one."""

    source: str
    model: str
    dial: str  # ``long``: sizes are tokens of the prompt; ``summary``: shares of the history that were summarized
    points: tuple[tuple[float, float], ...]
    base: float = 1.0  # the share of right answers without any loss


CURVES = (
    PublishedCurve("RULER, literal retrieval", "GPT-4", "long", ((4_000, 0.966), (128_000, 0.812))),
    PublishedCurve("RULER, literal retrieval", "Gemini 1.5 Pro", "long", ((4_000, 0.967), (128_000, 0.944))),
    PublishedCurve("NoLiMa, no repeated words", "GPT-4o", "long", ((1_000, 0.981), (8_000, 0.892), (32_000, 0.697))),
    PublishedCurve(
        "NoLiMa, no repeated words", "Claude 3.5 Sonnet", "long", ((1_000, 0.854), (8_000, 0.617), (32_000, 0.298))
    ),
    PublishedCurve("chroma context-rot, facts of a chat", "GPT-4.1", "long", ((300, 0.873), (113_000, 0.624))),
    PublishedCurve(
        "lost-in-compaction, facts after one compaction", "not named", "summary",
        ((0.05, 0.725), (0.25, 0.588), (0.5, 0.438), (0.98, 0.075)), base=0.788,
    ),
)  # fmt: skip


class PublishedPoint(Struct, frozen=True):
    """A published figure and the prediction of the reader for it."""

    curve: PublishedCurve
    setting: float  # the fitted dial
    size: float
    published: float
    simulated: float

    @property
    def agrees(self) -> bool:
        return abs(self.published - self.simulated) <= TOLERANCE


def points() -> Iterator[PublishedPoint]:
    """Yield every point that was not used to fit its curve."""
    for curve in CURVES:
        size, right = curve.points[-1]
        setting = _fitted(curve, size, right)
        for at, published in curve.points[:-1]:
            yield PublishedPoint(curve, setting, at, published, _predicted(curve, setting, at))


def _fitted(curve: PublishedCurve, size: float, right: float) -> float:
    """Return the setting of the dial that gives the published figure at this size."""
    if curve.dial == "long":
        return (1 - right) * FULL_LENGTH_TOKENS / size
    return 1 - (1 - right / curve.base) / size


def _predicted(curve: PublishedCurve, setting: float, size: float) -> float:
    if curve.dial == "long":
        return 1 - ReaderDials(long=setting).chance(size)
    return curve.base * (1 - size * (1 - setting))


def table_rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table in docs/simulated-model.md."""
    for point in points():
        size = f"{point.size:,.0f} tokens" if point.curve.dial == "long" else f"{100 * point.size:.0f} % summarized"
        yield (
            f"{point.curve.source}, {point.curve.model}", size, f"`{point.curve.dial}` {point.setting:.2f}",
            f"{100 * point.published:.1f} %", f"{100 * point.simulated:.1f} %", "yes" if point.agrees else "no",
        )  # fmt: skip
