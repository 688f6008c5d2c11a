"""The answer of a study of recordings, how sure it is, and its bills as a forest plot."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import isinf

from msgspec import Struct, json

from stackmem.lab.bench.evidence import PRICED, READS
from stackmem.lab.bench.evidence_figures import MIN_TASKS_OF_SUM, EvidenceLine, EvidenceTable
from stackmem.lab.bench.intervals import Interval
from stackmem.review.report.colors import hue_of

from .anchors import family_of
from .svg import Scale, mark

_BOUNDS = ("best", "worst")  # cases that are bounds, not expectations
_ROW, _LEFT, _WIDTH, _RIGHT = 22, 150, 760, 16


def verdict(table: EvidenceTable) -> tuple[str, str]:
    """Return the strategy with the lowest expected bill, and how sure that is; empty without a strategy."""
    bills = [(bill, line) for line in table.lines if (bill := _bill(line)) and line.name.split(" ")[-1] not in _BOUNDS]
    bills = [(bill, line) for bill, line in bills if line.name != "full"]
    if not bills:
        return "", ""
    bill, line = min(bills, key=lambda pair: pair[0].value)
    at = f"at cached reads of {READS[0]:g}"
    if bill.value < 1:
        first = f"{line.name} costs {_percent(1 - bill.value)} less than full{_ends(bill)} {at}."
    else:
        first = f"No strategy costs less than full {at}; {line.name} costs {_percent(bill.value - 1)} more."
    sure = f"This covers {table.runs:,} runs of {table.tasks:,} tasks."
    if line.dearer[0] is not None:
        sure += f" {_percent(line.dearer[0].value)} of the runs cost more than under full."
    if bill.low is None:
        sure += f" {too_few(line, table)}."
    return first, f"{sure} The replies are the recorded ones; only a bench shows if the work would still be done."


def too_few(line: EvidenceLine, table: EvidenceTable) -> str:
    """Return why the sum of the bills of a strategy has no interval."""
    if table.tasks >= MIN_TASKS_OF_SUM:
        return f"The bills differ in {line.differing:,} of {table.tasks:,} tasks: too few for an interval"
    return f"An interval of a sum needs at least {MIN_TASKS_OF_SUM} tasks, because a few large ones decide it"


class _Row(Struct, frozen=True):
    """A strategy in the plot: its expected bill, and the bounds if it has cases."""

    name: str
    bill: Interval
    expected: EvidenceLine
    bounds: tuple[EvidenceLine, ...]  # the best and the worst case; empty without cases


def forest_plot(table: EvidenceTable) -> str:
    """Draw each strategy's bill relative to full, the lowest first, with its interval and its cases.

    The rows contain the sums of the bills, so that the page's script can draw them at another price.
    """
    rows = sorted(_plot_rows(table), key=lambda row: row.bill.value)
    if len(rows) < 2:
        return ""
    ends = [value for row in rows for value in (*_finite(row.bill), row.bill.value, 1.0) if value is not None]
    ends += [bill.value for row in rows for line in row.bounds if (bill := _bill(line))]
    scale = Scale(min(ends) * 0.97, max(ends) * 1.03, _LEFT, _WIDTH - _RIGHT)
    height = _ROW * (len(rows) + 1) + 8
    marks = [
        f'<line class="one" x1="{scale(1.0)}" x2="{scale(1.0)}" y1="0" y2="{height - _ROW}" stroke="var(--muted)"/>',
        *(_row(row, scale, number * _ROW + _ROW // 2) for number, row in enumerate(rows)),
    ]
    ticks = "".join(
        f'<text x="{scale(tick)}" y="{height - 6}" text-anchor="middle">{tick:g}</text>' for tick in scale.ticks()
    )
    says = f"Bill relative to full at cached reads of {READS[0]:g}: " + "; ".join(
        f"{row.name} {row.bill.value:.2f}" for row in rows
    )
    return (
        f'<svg class="forest" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(says)}" font-size="12" '
        f'fill="currentColor" data-reads="{" ".join(map(str, READS))}" data-left="{_LEFT}" '
        f'data-right="{_WIDTH - _RIGHT}" data-row="{_ROW}">{"".join(marks)}<g class="ticks">{ticks}</g></svg>'
        f"<p class=told>Bill relative to full at cached reads of {READS[0]:g}, with 95 % intervals. "
        "A pale line leads from the best case to the worst.</p>"
    )


def price_slider() -> str:
    """Return the slider for the reader's own price. The page's script shows it and redraws the plot."""
    return (
        '<form class="price" hidden><label>A token read from the cache costs '
        '<input type="range" min="0" max="100" step="1" value="50" aria-label="Price of a cached token">'
        "<output></output> of an input token</label>"
        '<p class="told" role="status"></p></form>'
    )


def _plot_rows(table: EvidenceTable) -> Iterator[_Row]:
    lines = {line.name: line for line in table.lines}
    for name, line in lines.items():
        base, _, case = name.rpartition(" ")
        bill = _bill(line)
        if bill is None or case in _BOUNDS:
            continue
        if case == "middle":
            bounds = tuple(lines[f"{base} {bound}"] for bound in _BOUNDS if f"{base} {bound}" in lines)
            yield _Row(base, bill, line, bounds)
        else:
            yield _Row(name, bill, line, ())


def _row(row: _Row, scale: Scale, middle: int) -> str:
    strategy = row.name.partition(" ")[0]
    color = f"var(--hue-{hue_of(strategy)})"
    label = f'<text x="{_LEFT - 26}" y="4" text-anchor="end">{escape(row.name)}</text>'
    family = f'<g fill="{color}">{mark(family_of(strategy), _LEFT - 14, 0, 4.6)}</g>'
    bounds = [bill.value for line in row.bounds if (bill := _bill(line))]
    spans = ""
    if len(bounds) == len(_BOUNDS):
        spans = _span("bounds", bounds[0], bounds[1], scale, color, 6, 0.25)
    low, high = _finite(row.bill)
    if low is not None and high is not None:
        spans += _span("interval", low, high, scale, color, 2, 1)
    cases = [line.sums for line in (row.expected, *row.bounds)]
    return (
        f'<g class="entry" transform="translate(0 {middle})" data-priced="{int(strategy in PRICED)}" '
        f"data-sums='{json.encode(cases).decode()}' data-ends='{json.encode(_interval_ends(row)).decode()}'>"
        f'{label}{family}{spans}<circle class="bill" cx="{scale(row.bill.value)}" cy="0" r="4" fill="{color}"/></g>'
    )


def _span(kind: str, low: float, high: float, scale: Scale, color: str, width: int, opacity: float) -> str:
    return (
        f'<line class="{kind}" x1="{scale(low)}" x2="{scale(high)}" y1="0" y2="0" stroke="{color}" '
        f'stroke-width="{width}" stroke-opacity="{opacity:g}"/>'
    )


def _interval_ends(row: _Row) -> list[tuple[float | None, float | None]]:
    """Return the ends of the interval at each studied price."""
    return [_finite(bill) if bill else (None, None) for bill in row.expected.bills]


def _finite(bill: Interval) -> tuple[float | None, float | None]:
    """Return the ends of an interval that can be drawn."""
    return (None, None) if bill.high is None or isinf(bill.high) else (bill.low, bill.high)


def _bill(line: EvidenceLine) -> Interval | None:
    return line.bills[0]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ends(bill: Interval) -> str:
    if bill.low is None or bill.high is None:
        return ""
    return f" [{100 * (1 - bill.high):.0f}, {100 * (1 - bill.low):.0f}]"
