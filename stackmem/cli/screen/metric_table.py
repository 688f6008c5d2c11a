"""Metrics as lines."""

from __future__ import annotations

from collections.abc import Mapping

from stackmem.measure.fold import Value
from stackmem.measure.metrics import METRICS

from .columns import aligned


def table(found: Mapping[str, Value]) -> list[str]:
    """One line for each metric: its name, its value, and its unit where neither of them tells it."""
    rows = []
    for name, metric in METRICS.items():
        said = name.endswith(("_tokens", "_seconds", "_usd")) or name == metric.unit
        rows.append((name, _shown(found[name], metric.unit), "" if said else metric.unit))
    return aligned(rows, left=(0,))


def _shown(value: Value, unit: str) -> str:
    if value is None:
        return "unknown" if unit == "USD" else "-"
    if unit == "USD":
        return f"{value:,.4f}"
    if unit.startswith("share"):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
