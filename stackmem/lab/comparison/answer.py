"""The first two sentences of the report: which strategy to take, and how sure that is."""

from __future__ import annotations

from math import ceil, inf, log

from stackmem.lab.bench.intervals import Interval
from stackmem.lab.bench.statistics import TOO_FEW, Comparison

from .columns import as_text
from .figures import Line, Section, Wants, bill_name

_MIN_UNITS = 6  # fewer cannot pass the permutation test at 5 %
_ALIKE_SHARE = 1e-9
_MAX_UNITS = 10_000


def answer(section: Section, wants: Wants) -> str:
    """Return which strategy costs least without solving fewer tasks, with the size of the difference."""
    base = next((line for line in section.lines if line.strategy == wants.baseline), None)
    if base is None or len(section.lines) < 2:
        return ""
    best = _cheapest(section, base, wants)
    if best is None:
        solved = as_text(_value(base.figures["solved"]), "share")
        return f"No strategy costs less than {base.strategy} and solves as much; {base.strategy} solves {solved}."
    cost = best.against["bill"].effect
    return f"{best.strategy} costs {_saving(cost)} than {base.strategy}; {_solving(best, base)}."


def certainty(section: Section, wants: Wants) -> str:
    """Return how sure the answer is, and how many units would make it sure."""
    base = next((line for line in section.lines if line.strategy == wants.baseline), None)
    if base is None or len(section.lines) < 2:
        return ""
    best = _cheapest(section, base, wants)
    candidates = [best] if best else [line for line in section.lines if "bill" in line.against]
    if not candidates:
        return "The strategies share no completed unit, so their costs cannot be compared."
    comparison = min((line.against["bill"] for line in candidates), key=lambda item: item.p_corrected)
    units = comparison.effect.count
    of = "trials of one world" if section.task else "worlds" if units != 1 else "world"
    if comparison.verdict in ("better", "worse"):
        return f"The difference in cost is shown over {units} {of} (p = {comparison.p_corrected:.2g})."
    needed = _enough(comparison)
    more = f"about {needed:,} would be needed." if needed else "the costs are too alike, or vary too much."
    return f"This is not shown yet over {units} {of}: {more}"


def _cheapest(section: Section, base: Line, wants: Wants) -> Line | None:
    """Return the cheapest strategy below the baseline's bill that solved as much."""
    name = bill_name(wants.read_multiple)
    solved = _value(base.figures["solved"])
    fits = [
        line
        for line in section.lines
        if (comparison := line.against.get("bill")) is not None
        and comparison.effect.value < 1
        and _value(line.figures["solved"]) >= solved - _ALIKE_SHARE
        and line.figures[name] is not None
    ]
    return min(fits, key=lambda line: line.against["bill"].effect.value, default=None)


def _value(figure: Interval | None) -> float:
    return figure.value if figure else 0.0


def _saving(ratio: Interval) -> str:
    """Spell a ratio of costs below 1 as a saving with its interval."""
    saved = f"{100 * (1 - ratio.value):.0f} % less"
    if ratio.low is None or ratio.high is None or ratio.high == inf or ratio.high > 2:  # wider says nothing
        return saved
    return f"{saved} [{100 * (1 - ratio.high):.0f}, {100 * (1 - ratio.low):.0f}]"


def _solving(best: Line, base: Line) -> str:
    share, base_share = (_value(line.figures["solved"]) for line in (best, base))
    if abs(share - base_share) > _ALIKE_SHARE:
        return f"it solves {as_text(share, 'share')}, {base.strategy} {as_text(base_share, 'share')}"
    return "both solve all" if share == 1 else f"both solve {as_text(share, 'share')}"


def _enough(comparison: Comparison) -> int | None:
    """Return the number of units at which an interval that shrinks with their square root excludes no difference."""
    corrected = comparison.corrected
    if corrected.low is None or corrected.high is None or not 0 < corrected.low <= corrected.high < inf:
        return _MIN_UNITS if comparison.verdict == TOO_FEW and corrected.value != 1 else None
    gap, half = abs(log(corrected.value)), (log(corrected.high) - log(corrected.low)) / 2
    if not gap:
        return None
    needed = max(_MIN_UNITS, corrected.count + 1, ceil(corrected.count * (half / gap) ** 2))
    return needed if needed <= _MAX_UNITS else None
