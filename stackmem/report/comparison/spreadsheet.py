"""The report as one table for a spreadsheet: every figure of every strategy on every set of tasks, unrounded."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from stackmem.bench.intervals import Interval
from stackmem.bench.statistics import Comparison

from .figures import Line, Section

_COMPARED = ("solved", "bill", "peak")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def spreadsheet(shown: Sequence[Section]) -> str:
    """Comma separated, one line per strategy and set of tasks; an end of an interval that is open is ``inf``."""
    names = list(dict.fromkeys(name for section in shown for line in section.lines for name in line.figures))
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ["model", "noise", "set", "task", "horizon", "strategy", "trials", "errors", "k"]
    heads += [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    heads += [f"{name}_to_baseline{end}" for name in _COMPARED for end in _ENDS]
    writer.writerow(heads)
    for section in shown:
        horizon = f"{section.horizon:g}" if section.horizon == section.horizon else ""
        whose = [_safe(text) for text in (section.model, section.noise, section.title, section.task)]
        for line in section.lines:
            writer.writerow([*whose, horizon, *_cells(line, names)])
    return out.getvalue()


_ENDS = ("", "_low", "_high", "_corrected_low", "_corrected_high", "_ratio", "_p", "_p_corrected", "_pairs", "_verdict")


def _cells(line: Line, names: Sequence[str]) -> list[str | float]:
    cells: list[str | float] = [_safe(line.strategy), line.trials, line.errors, line.k]
    for name in names:
        cells += _interval(line.figures.get(name))
    for name in _COMPARED:
        cells += _compared(line.against.get(name))
    return cells


def _interval(found: Interval | None) -> list[str | float]:
    if found is None:
        return ["", "", ""]
    return [found.value, "" if found.low is None else found.low, "" if found.high is None else found.high]


def _compared(found: Comparison | None) -> list[str | float]:
    if found is None:
        return [""] * len(_ENDS)
    ratio = found.ratio.value if found.ratio else ""
    corrected = _interval(found.corrected)[1:]
    return [
        *_interval(found.difference), *corrected, ratio, found.p, found.p_corrected, found.difference.count,
        found.verdict,
    ]  # fmt: skip


def _safe(text: str) -> str:
    """A name that a spreadsheet would take for a formula is kept from being one."""
    return f"'{text}" if text.startswith(_FORMULA) else text
