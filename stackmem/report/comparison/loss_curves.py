"""How long a strategy keeps in sight what the run still needs: the share of trials without a loss by each step.

A run that ends without a loss is no proof that none would have come: it leaves the curve where it ended
(Kaplan and Meier, 1958; scipy.stats.ecdf).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from msgspec import Struct

from stackmem.bench.intervals import library

from .anchors import Anchors, leads
from .columns import as_text
from .figures import Wants
from .labels import stacked
from .results import TrialRow
from .svg import Axis, Box, Scale, axes, clipped, drawing, label, line, linked, path


class Curve(Struct, frozen=True):
    """A strategy's curve.

    Attributes:
        points: Step and the share without a loss from it on; the first is step 0.
        end: The last step of its longest run.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    end: float
    trials: int


def loss_curves(trials: Sequence[TrialRow], column: str) -> list[Curve]:
    """One for each strategy; none where no loss was looked for, or none found in any.

    Args:
        column: ``first_loss_step``: out of the prompt; ``first_gone_step``: and on no heap either.
    """
    counted = [trial for trial in trials if not trial.failed and trial.number("steps") > 0]
    if not any(isfinite(trial.number(column)) for trial in counted):
        return []
    mine: dict[str, list[TrialRow]] = {}
    for trial in counted:
        mine.setdefault(trial.strategy, []).append(trial)
    return [_curve(name, found, column) for name, found in mine.items()]


def _curve(name: str, trials: Sequence[TrialRow], column: str) -> Curve:
    losses = [trial.number(column) for trial in trials]
    ends = [trial.number("steps") for trial in trials]
    lost = [loss for loss in losses if isfinite(loss)]
    kept = [end for loss, end in zip(losses, ends, strict=True) if not isfinite(loss)]
    points = [(0.0, 1.0)]
    if lost:
        found = library().ecdf(library().CensoredData(uncensored=lost, right=kept)).sf
        points += [(float(x), float(y)) for x, y in zip(found.quantiles, found.probabilities, strict=True)]
    return Curve(name, tuple(points), max(*ends, *lost, 1.0), len(trials))


def loss_plot(
    shown: Sequence[Curve], title: str, group: tuple[str, str], wants: Wants, anchors: Anchors, width: int
) -> str:
    """The plot, names at the ends of the curves."""
    if not shown:
        return ""
    names = {curve.name: f"{clipped(curve.name, 16 if width < 500 else 24)} {_share(curve)}" for curve in shown}
    side = max(len(text) for text in names.values()) * 6.4 + 26
    height = max(400, 15 * len(shown) + 90)
    box = Box(width, height, 46, width - side, 30, height - 46)
    across = Scale(0.0, max(curve.end for curve in shown), box.left, box.right)
    up = Scale(0.0, 1.0, box.bottom, box.top + 8)
    steps = Axis(across, "step", [(value, f"{value:g}") for value in across.ticks()])
    drawn = [axes(box, steps, Axis(up, "trials without a loss so far", [(v, as_text(v, "share")) for v in up.ticks()]))]
    ends = stacked([up(curve.points[-1][1]) for curve in shown], box.top + 4, box.bottom - 4, 14)
    for curve, at in sorted(zip(shown, ends, strict=True), key=lambda pair: leads(pair[0].name, wants.baseline)):
        corners = [(across(0), up(1.0))]
        for step, share in curve.points[1:]:
            corners += [(across(step), corners[-1][1]), (across(step), up(share))]
        corners.append((across(curve.end), corners[-1][1]))
        marks = path(corners, "curve") + line(*corners[-1], box.right, corners[-1][1], "over")
        marks += line(box.right, corners[-1][1], box.right + 12, at, "leader")
        marks += label(box.right + 15, at + 4, names[curve.name], "name")
        strong = "leading" if leads(curve.name, wants.baseline) else ""
        tells = f"{curve.name}: {_share(curve)} of {curve.trials} trials lost nothing that they used later"
        target, family = anchors.of_strategy(group, curve.name), anchors.family(curve.name)
        drawn.append(linked(target, family, anchors.strategy(curve.name), tells, marks, strong))
    return drawing(box, f"Trials without a loss by step, {title}", "".join(drawn))


def _share(curve: Curve) -> str:
    return as_text(curve.points[-1][1], "share")
