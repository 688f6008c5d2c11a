"""Write the report of a bench as a page, Markdown, CSV or Parquet, depending on the file's extension."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from io import StringIO
from math import isfinite
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.lab.bench.intervals import Interval
from stackmem.lab.bench.statistics import Comparison
from stackmem.models.catalog import lookup
from stackmem.review.report.page import write_whole
from stackmem.settings.options import suggestion

from .answer import answer, certainty
from .columns import cell_text, columns
from .expectations import expectation_rows, expectation_text
from .figures import Line, Section, Wants, sections
from .findings import facts, findings, remarks, title
from .page import page
from .parquet import SUFFIX as PARQUET
from .parquet import trials_table
from .requests import request_rows, request_text
from .results import BenchRows, read_bench
from .run_columns import Column
from .stability import map_rows, map_text, stability_maps

KINDS = (".html", ".md", ".csv", PARQUET)
PRICED_AS = "claude-sonnet-5-5"


class Written(Struct, frozen=True):
    """A report that was written."""

    path: Path
    trials: int  # number of rows in the report


def write_report(
    folder: Path, output: str | None = None, *, baseline: str | None = None, read_multiple: float | None = None
) -> Written:
    """Write the report of the bench in ``folder``, by default as ``report.html`` in that folder.

    ``baseline`` is the strategy to compare the others with. None chooses the first of full and stackheap that exists.
    ``read_multiple`` is the price of a cached token in prices of an input token, 0 to 1; None uses the model's own.
    Raise UsageError if the folder does not contain a bench, the file has another suffix, or it cannot be written. Raise
    TraceError if the bench's files are broken.
    """
    path = folder / "report.html" if output is None else Path(os.path.expanduser(output))
    if path.suffix.lower() not in KINDS:
        raise UsageError(f"-o {path} does not end in one of {', '.join(KINDS)}; choose one of these extensions")
    if read_multiple is not None and not (isfinite(read_multiple) and 0 <= read_multiple <= 1):
        raise UsageError(
            f"invalid --read-multiple {read_multiple:g}; give 0 to 1, such as 0.1 for a tenth of the input price"
        )
    results = read_bench(folder)
    wants = _wants(results, baseline, read_multiple)
    write_whole(path, _content(results, wants, path))
    return Written(path, len(results.trials))


def report_page(folder: Path, home: str) -> bytes:
    """Return the report of a bench as a page, as if it were in its folder. Raises like ``write_report``.

    ``home`` is the address of the list of benches, for the link back.
    """
    results = read_bench(folder)
    wants = _wants(results, None, None)
    return page(results, sections(results, wants), wants, folder / "report.html", home).encode(errors="replace")


def _content(results: BenchRows, wants: Wants, path: Path) -> bytes:
    if path.suffix.lower() == PARQUET:
        return trials_table(results)
    all_sections = sections(results, wants)
    match path.suffix.lower():
        case ".md":
            text = markdown(results, all_sections, wants)
        case ".csv":
            text = spreadsheet(all_sections)
        case _:
            text = page(results, all_sections, wants, path)
    return text.encode(errors="replace")


def _wants(results: BenchRows, baseline: str | None, read_multiple: float | None) -> Wants:
    name = results.suite.get("price") or PRICED_AS
    row = lookup(name)
    if row is None or row.price is None:
        raise UsageError(
            f"the bench uses the prices of {name[:80]!r}, which are unknown here; stackmem models lists the known ones"
        )
    names = {trial.strategy for trial in results.trials}
    if baseline is not None and names and baseline not in names:
        raise UsageError(
            f"the bench has no trials of --baseline {baseline[:60]!a}; {suggestion(baseline, sorted(names))}"
        )
    usual = _usual(results) if baseline is None else baseline
    return Wants(row.price, row.name, usual, read_multiple, results.alpha)


def _usual(results: BenchRows) -> str:
    """Return the default baseline: full history. An ablation without it uses the strategy that it varies."""
    names = {trial.strategy for trial in results.trials}
    return next((name for name in ("full", "stackheap") if name in names), "full")


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&!])")


def markdown(results: BenchRows, all_sections: Sequence[Section], wants: Wants) -> str:
    """Return the whole report as Markdown."""
    lines = ["# Strategies side by side", ""]
    lines += [f"- **{escaped(name)}**: {escaped(text)}" for name, text in facts(results, wants)]
    lines += [line for remark in remarks(results, wants) for line in ("", escaped(remark))]
    if not results.trials:
        lines += ["", "No trial has ended yet."]
    for stability_map in stability_maps(all_sections, wants):
        lines += [
            "",
            f"## Which verdicts depend on the model · {escaped(stability_map.title)}",
            "",
            escaped(map_text(stability_map)),
            "",
        ]
        lines += _plain_table(map_rows(stability_map, wants))
    if rows := expectation_rows(results.trials, wants):
        lines += [
            "",
            "## Strategies that each family hurts",
            "",
            escaped(expectation_text(wants)),
            "",
            *_plain_table(rows),
        ]
    if rows := request_rows(results.trials, wants):
        lines += ["", "## Cost of the n-th request", "", escaped(request_text()), "", *_plain_table(rows)]
    for section in all_sections:
        lines += _section(section, wants)
    return "\n".join(lines) + "\n"


def _plain_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of text; the first row is the header."""
    heads, *rest = ([escaped(cell) for cell in row] for row in rows)
    return [_row(heads), _row(["---", *("---:" for _ in heads[1:])]), *map(_row, rest)]


def _section(section: Section, wants: Wants) -> list[str]:
    used = columns(section, wants)
    heads = ["strategy", "trials", *(_head(column) for column in used)]
    lines = ["", f"## {escaped(title(section))}", ""]
    lines += [
        line for says in (answer(section, wants), certainty(section, wants)) if says for line in (escaped(says), "")
    ]
    lines += [f"- {escaped(finding)}" for finding in findings(section, wants)]
    lines += ["", _row(heads), _row(["---", *("---:" for _ in heads[1:])])]
    for line in section.lines:
        counted = f"{line.trials}" + (f" + {line.errors} failed" if line.errors else "")
        lines.append(_row([escaped(line.strategy), counted, *(cell_text(line, column) for column in used)]))
    return lines


def _head(column: Column) -> str:
    return escaped(f"{column.group.removesuffix(', USD')}: {column.title}")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Escape a text so that Markdown shows it literally, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join("".join(c if c.isprintable() else " " for c in text).split()))


_COMPARED = ("solved", "solved_here", "bill", "peak")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def spreadsheet(all_sections: Sequence[Section]) -> str:
    """Return CSV with one line per strategy and set of tasks. An open end of an interval is ``inf``."""
    names = list(dict.fromkeys(name for section in all_sections for line in section.lines for name in line.figures))
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ["model", "noise", "set", "task", "horizon", "strategy", "trials", "errors", "k"]
    heads += [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    heads += [f"{name}_to_baseline{end}" for name in _COMPARED for end in _ENDS]
    writer.writerow(heads)
    for section in all_sections:
        horizon = f"{section.horizon:g}" if section.horizon == section.horizon else ""
        whose = [_safe(text) for text in (section.model, section.noise, section.title, section.task)]
        for line in section.lines:
            writer.writerow([*whose, horizon, *_cells(line, names)])
    return out.getvalue()


_ENDS = ("", "_low", "_high", "_corrected_low", "_corrected_high", "_p", "_p_corrected", "_units", "_verdict")


def _cells(line: Line, names: Sequence[str]) -> list[str | float]:
    cells: list[str | float] = [_safe(line.strategy), line.trials, line.errors, line.k]
    for name in names:
        cells += _interval(line.figures.get(name))
    for name in _COMPARED:
        cells += _compared(line.against.get(name))
    return cells


def _interval(figure: Interval | None) -> list[str | float]:
    if figure is None:
        return ["", "", ""]
    return [figure.value, "" if figure.low is None else figure.low, "" if figure.high is None else figure.high]


def _compared(comparison: Comparison | None) -> list[str | float]:
    if comparison is None:
        return [""] * len(_ENDS)
    corrected = _interval(comparison.corrected)[1:]
    return [
        *_interval(comparison.effect), *corrected, comparison.p, comparison.p_corrected, comparison.effect.count,
        comparison.verdict,
    ]  # fmt: skip


def _safe(text: str) -> str:
    """Prefix a name that a spreadsheet would treat as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
