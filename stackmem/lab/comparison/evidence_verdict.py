"""The answer of a study of recordings, how sure it is, and its bills as a forest plot."""

from __future__ import annotations

from html import escape

from stackmem.lab.bench.evidence import READS
from stackmem.lab.bench.evidence_figures import MIN_TASKS, EvidenceLine, EvidenceTable
from stackmem.lab.bench.intervals import Interval

from .svg import Scale

_BOUNDS = ("best", "worst")  # cases that are bounds, not expectations
_ROW, _LEFT, _WIDTH, _RIGHT = 22, 150, 760, 16


def verdict(table: EvidenceTable) -> tuple[str, str]:
    """Return the strategy with the lowest expected bill, and how sure that is; empty without a strategy."""
    known = [(bill, line) for line in table.lines if (bill := _bill(line)) and line.name.split(" ")[-1] not in _BOUNDS]
    known = [(bill, line) for bill, line in known if line.name != "full"]
    if not known:
        return "", ""
    bill, line = min(known, key=lambda pair: pair[0].value)
    at = f"at cached reads of {READS[0]:g}"
    if bill.value < 1:
        first = f"{line.name} costs {_percent(1 - bill.value)} less than full{_ends(bill)} {at}."
    else:
        first = f"No strategy costs less than full {at}; {line.name} costs {_percent(bill.value - 1)} more."
    sure = f"This covers {table.runs:,} runs of {table.tasks:,} tasks."
    if line.dearer[0] is not None:
        sure += f" {_percent(line.dearer[0].value)} of the runs cost more than under full."
    if bill.low is None:
        sure += f" An interval needs at least {MIN_TASKS} tasks."
    return first, f"{sure} The replies are the recorded ones; only a bench shows if the work would still be done."


def forest_plot(table: EvidenceTable) -> str:
    """Draw each strategy's bill relative to full, the lowest first, with its interval."""
    known = sorted(((bill, line) for line in table.lines if (bill := _bill(line))), key=lambda pair: pair[0].value)
    if len(known) < 2:
        return ""
    ends = [value for bill, _ in known for value in (bill.low, bill.value, bill.high, 1.0) if value is not None]
    scale = Scale(min(ends) * 0.97, max(ends) * 1.03, _LEFT, _WIDTH - _RIGHT)
    height = _ROW * (len(known) + 1) + 8
    marks = [f'<line x1="{scale(1.0)}" x2="{scale(1.0)}" y1="0" y2="{height - _ROW}" stroke="var(--muted)"/>']
    for row, (bill, line) in enumerate(known):
        marks.append(_row(bill, line.name, scale, row * _ROW + _ROW // 2))
    ticks = "".join(
        f'<text x="{scale(tick)}" y="{height - 6}" text-anchor="middle">{tick:g}</text>' for tick in scale.ticks()
    )
    says = f"Bill relative to full at cached reads of {READS[0]:g}: " + "; ".join(
        f"{line.name} {bill.value:.2f}" for bill, line in known
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(says)}" font-size="12" '
        f'fill="currentColor" style="max-width:{_WIDTH}px;width:100%">{"".join(marks)}{ticks}</svg>'
        f"<p class=told>Bill relative to full at cached reads of {READS[0]:g}, with 95 % intervals.</p>"
    )


def _row(bill: Interval, name: str, scale: Scale, middle: int) -> str:
    interval = ""
    if bill.low is not None and bill.high is not None:
        interval = (
            f'<line x1="{scale(bill.low)}" x2="{scale(bill.high)}" y1="{middle}" y2="{middle}" '
            'stroke="var(--accent)" stroke-width="2"/>'
        )
    label = f'<text x="{_LEFT - 10}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
    return f'{label}{interval}<circle cx="{scale(bill.value)}" cy="{middle}" r="4" fill="var(--accent)"/>'


def _bill(line: EvidenceLine) -> Interval | None:
    return line.bills[0]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ends(bill: Interval) -> str:
    if bill.low is None or bill.high is None:
        return ""
    return f" [{100 * (1 - bill.high):.0f}, {100 * (1 - bill.low):.0f}]"
