"""Writes the report of a bench where a person wants it, as the end of the file's name says."""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.models.catalog import lookup
from stackmem.report.write import write_whole
from stackmem.settings.options import suggestion

from .figures import Wants, sections
from .markdown import markdown
from .page import page
from .results import BenchRows, read_bench
from .spreadsheet import spreadsheet

KINDS = (".html", ".md", ".csv")
PRICED_AS = "claude-sonnet-5-5"


class Written(Struct, frozen=True):
    """A report that was written.

    Attributes:
        trials: How many rows it speaks of.
    """

    path: Path
    trials: int


def write_report(
    folder: Path, output: str | None = None, *, baseline: str | None = None, read_multiple: float = 0.1
) -> Written:
    """The report of the bench in ``folder``; ``report.html`` in it where ``output`` is None.

    Args:
        baseline: The strategy that the others are held against; None is the first of full and stackheap that is there.
        read_multiple: Price of a token read from the cache in prices of an input token, 0 to 1.

    Raises:
        UsageError: There is no bench, the file's name ends otherwise, or it cannot be written.
        TraceError: The bench's files are broken.
    """
    path = folder / "report.html" if output is None else Path(os.path.expanduser(output))  # noqa: PTH111 - as in view
    if path.suffix.lower() not in KINDS:
        raise UsageError(f"-o {path} ends in none of {', '.join(KINDS)}; name the file by what it shall be")
    if not (isfinite(read_multiple) and 0 <= read_multiple <= 1):
        raise UsageError(f"--read-multiple {read_multiple:g} is not from 0 to 1; 0.1 is a tenth of the input price")
    results = read_bench(folder)
    wants = _wants(results, baseline, read_multiple)
    write_whole(path, _content(results, wants, path).encode(errors="replace"))
    return Written(path, len(results.trials))


def _content(results: BenchRows, wants: Wants, path: Path) -> str:
    shown = sections(results, wants)
    match path.suffix.lower():
        case ".md":
            return markdown(results, shown, wants)
        case ".csv":
            return spreadsheet(shown)
        case _:
            return page(results, shown, wants, path)


def _wants(results: BenchRows, baseline: str | None, read_multiple: float) -> Wants:
    name = results.suite.get("price") or PRICED_AS
    row = lookup(name)
    if row is None or row.price is None:
        raise UsageError(f"the bench was priced as {name[:80]!r}, which has no price here; stackmem models lists them")
    names = {trial.strategy for trial in results.trials}
    if baseline is not None and names and baseline not in names:
        raise UsageError(f"--baseline {baseline[:60]!a} was not run here; {suggestion(baseline, sorted(names))}")
    return Wants(row.price, row.name, _usual(results) if baseline is None else baseline, read_multiple)


def _usual(results: BenchRows) -> str:
    """What a bench is held against: full history; an ablation, which leaves that out, against what it varies."""
    names = {trial.strategy for trial in results.trials}
    return next((name for name in ("full", "stackheap") if name in names), "full")
