"""The columns of the report's tables: the title, unit and description of each figure."""

from __future__ import annotations

from math import inf
from typing import assert_never

from stackmem.lab.bench.intervals import Interval
from stackmem.lab.bench.statistics import Comparison
from stackmem.review.measure.metrics import METRICS, SHIPPED

from .figures import Line, Section, Wants, bill_name
from .run_columns import BILL, CONTEXT, MORE, RUN_COLUMNS, SUCCESS, Column, Kind


def columns(section: Section, wants: Wants) -> tuple[Column, ...]:
    """Return the columns that have data in this section, in order, without the strategy and its trials."""
    counts = {line.k for line in section.lines if line.k}
    k = str(counts.pop()) if len(counts) == 1 else "k"
    return tuple(
        column
        for column in _columns(wants, k)
        if any(figure_of(line, column) for line in section.lines) and not (k == "1" and column.key.startswith("pass_"))
    )


def _columns(wants: Wants, k: str) -> tuple[Column, ...]:
    to_base, multiple = f"to {wants.baseline}", f"{wants.read_multiple:g}"
    bills = [
        Column(
            bill_name(each),
            f"at {each:g}",
            f"mean bill if a cached token costs {each:g} of an uncached one",
            BILL,
            "usd",
        )
        for each in wants.multiples
    ]
    return (
        Column("solved", "solved", "share of trials whose checks passed", SUCCESS, "share"),
        Column("solved", to_base, "difference in success rate, mean of worlds", SUCCESS, "share", against=True),
        Column(
            "solved_here",
            "on these trials",
            "difference in success rate, mean of paired trials; exact McNemar test, nothing about other worlds",
            SUCCESS,
            "share",
            against=True,
        ),
        Column("pass_at_k", f"pass@{k}", f"chance that at least one of {k} trials of a task passes", SUCCESS, "share"),
        Column("pass_hat_k", f"pass^{k}", f"chance that each of {k} trials of a task passes", SUCCESS, "share"),
        *bills,
        Column("bill", to_base, f"bill at {multiple} over the baseline's, mean of ratios", BILL, "usd", against=True),
        Column("cost_per_solved", "a solved one", f"bills at {multiple} of all trials over those solved", BILL, "usd"),
        Column("peak_context_tokens", "peak", "the longest prompt, tokens", CONTEXT, "tokens"),
        Column("peak", to_base, "longest prompt over the baseline's, mean of ratios", CONTEXT, "tokens", against=True),
        Column("mean_context_tokens", "mean", "mean prompt, tokens", CONTEXT, "tokens"),
        *RUN_COLUMNS,
        *(
            Column(name, name.replace("_", " "), metric.tells, MORE, _kind(metric.unit))
            for name, metric in METRICS.items()
            if name not in SHIPPED
        ),
    )


def _kind(unit: str) -> Kind:
    kinds: dict[str, Kind] = {"USD": "usd", "tokens": "tokens", "share": "share"}
    return kinds.get(unit.partition(" ")[0], "count")


def figure_of(line: Line, column: Column) -> Interval | None:
    """Return the figure of a column; for a comparison with the baseline, the corrected one."""
    if column.against:
        comparison = line.against.get(column.key)
        return comparison.corrected if comparison else None
    return line.figures.get(column.key)


def kind_of(line: Line, column: Column) -> Kind:
    """Return the kind of a column; comparisons of amounts are ratios."""
    return "ratio" if comparison_of(line, column) and not column.key.startswith("solved") else column.kind


def comparison_of(line: Line, column: Column) -> Comparison | None:
    return line.against.get(column.key) if column.against else None


def as_text(value: float, kind: Kind, *, signed: bool = False) -> str:
    """Format a value with its unit, short enough for a table."""
    if value == inf:
        return "∞"
    size = abs(value)
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    match kind:
        case "share":
            return f"{sign}{size * 100:.0f}{'' if signed else ' %'}"
        case "usd":
            return f"{sign}{_three(size)}"
        case "tokens":
            return f"{sign}{_thousands(size)}"
        case "ratio":
            return f"{size:.2f}×" if size < 9.995 else f"{size:,.0f}×"
        case "count":
            return f"{sign}{size:.0f}" if size >= 100 or size == round(size) else f"{sign}{size:.1f}"
        case _:
            assert_never(kind)


_WIDEST = 1_000  # ratio of the ends of an interval that is still printed


def range_text(figure: Interval, kind: Kind, *, signed: bool = False) -> str:
    """Format the ends of the interval. Returns an empty string if there is none or both ends look the same.

    An interval of an amount over several orders of magnitude is only called too wide, because its ends say nothing.
    """
    if figure.low is None or figure.high is None:
        return ""
    if kind in ("ratio", "usd", "tokens") and not signed and figure.high > _WIDEST * max(0.0, figure.low) > 0:
        return "too wide"
    low, high = (as_text(end, kind, signed=signed).rstrip(" %×") for end in (figure.low, figure.high))
    return "" if low == high else f"{low} … {high}" if signed else f"{low}–{high}"


def cell_texts(line: Line, column: Column) -> tuple[str, str, str]:
    """Return the value, its interval, and the verdict against the baseline as texts; each can be empty."""
    figure, comparison, kind = figure_of(line, column), comparison_of(line, column), kind_of(line, column)
    if figure is None:
        return ("", "", "")
    signed = column.against and kind != "ratio"
    value, interval = as_text(figure.value, kind, signed=signed), range_text(figure, kind, signed=signed)
    return (value, interval, comparison.verdict if comparison else "")


def cell_text(line: Line, column: Column) -> str:
    """Return the content of a cell as one text."""
    value, interval, verdict = cell_texts(line, column)
    return " ".join(filter(None, (value, f"({interval})" if interval else "", verdict)))


def _three(size: float) -> str:
    """Format a number with three significant digits."""
    if size == 0:
        return "0"
    if size < 0.00005:
        return f"{size:.1e}"
    return (
        f"{size:,.0f}" if size >= 100 else f"{size:.4f}" if size < 0.1 else f"{size:.3f}" if size < 1 else f"{size:.2f}"
    )


def _thousands(size: float) -> str:
    if size < 1_000:
        return f"{size:.0f}"
    return f"{size / 1_000:.1f}k".replace(".0k", "k") if size < 99_950 else f"{size / 1_000:,.0f}k"
