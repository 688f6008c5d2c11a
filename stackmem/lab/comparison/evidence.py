"""Write a study of recordings as a page, Markdown, CSV or Parquet, depending on the file's extension.

Names come from recordings and can be hostile. The page escapes them, runs only its own script, and loads no other
resources.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from io import StringIO
from math import inf
from pathlib import Path

from stackmem.core.errors import UsageError
from stackmem.core.text import quantity
from stackmem.lab.bench.evidence import FIXED, PRICED_AS, READS, RecordingEntry
from stackmem.lab.bench.evidence_figures import (
    MIN_DIFFERING_ALIKE,
    MIN_DIFFERING_OF_SUM,
    MIN_RUNS,
    MIN_TASKS,
    MIN_TASKS_ALIKE,
    MIN_TASKS_OF_SUM,
    OVERRUN_RATIO,
    EvidenceLine,
    EvidenceTable,
    tables,
)
from stackmem.lab.bench.intervals import Interval
from stackmem.review.report.colors import color_styles
from stackmem.review.report.page import asset, script_digest, write_whole

from .evidence_verdict import forest_plot, price_slider, verdict
from .parquet import SUFFIX as PARQUET
from .parquet import recordings_table
from .tables import plain_table
from .write import KINDS, escaped

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {script_digest}; \
style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Recordings under memory strategies · stackmem</title>
<style>{style}</style>
</head>
<body><header class="top"><span class="brand">stackmem</span></header><main>{body}</main>
<script>{script}</script></body>
</html>
"""
_HEADS = (
    "strategy",
    *(f"bill, reads at {read:g}" for read in READS),
    *(f"runs above {OVERRUN_RATIO:g}, reads at {read:g}" for read in READS),
    "facts out of sight",
    "frames a run",
    "looked for again a run",
    f"full costs less above, reads at {READS[0]:g}",
)
_CORE = (0, 1, 4, 7, 10)
"""Columns of the short table: the bill, runs above full, facts out of sight, and when full costs less."""
_HEADS_ALIKE = ("strategy", *(f"bill, reads at {read:g}" for read in READS), "tasks that differ")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_evidence(entries: Sequence[RecordingEntry], path: Path) -> None:
    """Write the tables of a study to a file.

    Raise UsageError if the file has an unknown suffix, or cannot be written.
    """
    if path.suffix.lower() == PARQUET:
        write_whole(path, recordings_table(entries))
        return
    all_tables = tables(entries)
    match path.suffix.lower():
        case ".md":
            content = _markdown(entries, all_tables)
        case ".csv":
            content = _spreadsheet(all_tables)
        case ".html":
            content = _page(entries, all_tables)
        case _:
            raise UsageError(f"-o {path} does not end in one of {', '.join(KINDS)}; choose one of these extensions")
    write_whole(path, content.encode(errors="replace"))


def summary(entries: Sequence[RecordingEntry]) -> list[str]:
    """Return sentences about the recordings that were read and those that were not."""
    usable = [entry for entry in entries if entry.bills]
    models, tasks = Counter(entry.model for entry in usable), {entry.task for entry in usable}
    counts = f"{quantity(len(models), 'model')} and {quantity(len(tasks), 'task')}"
    lines = [f"{quantity(len(usable), 'recording')} of {counts}; {_models(models)}"]
    unread = [entry for entry in entries if entry.unread]
    if unread:
        lines.append(f"{len(unread):,} files or sessions were not read: {_reasons(unread)}")
    guessed = sum(entry.estimated > 0 for entry in usable)
    if guessed:
        lines.append(f"{guessed:,} recordings lack the usage of replies, whose length is therefore estimated")
    timed, with_usage = sum(entry.timed for entry in usable), [entry for entry in usable if entry.recorded_bill]
    lines.append(f"{timed:,} recordings state their times; in the others, requests are ten seconds apart")
    if with_usage:
        bills = (
            sum(entry.bills["full"].usd[0] for entry in with_usage),
            sum(entry.recorded_bill[0] for entry in with_usage),
        )
        lines.append(
            f"{len(with_usage):,} recordings state the usage of every reply; the simulated bill of full is "
            f"{bills[0] / bills[1]:.2f} of theirs"
        )
    return lines


def _models(models: Counter[str]) -> str:
    return ", ".join(f"{model} {count:,}" for model, count in models.most_common())


def _reasons(unread: Sequence[RecordingEntry]) -> str:
    """Return the most common reasons, without file names, with their counts."""
    reasons = Counter(entry.unread.split(entry.file, 1)[-1].split(";", 1)[0].strip()[:120] for entry in unread)
    return "; ".join(f"{reason} ({count:,})" for reason, count in reasons.most_common(5))


def _remarks(entries: Sequence[RecordingEntry]) -> list[str]:
    reads = ", ".join(f"{read:g}" for read in READS)
    return [
        *summary(entries),
        f"Bills use the prices of {PRICED_AS} and are relative to the bill of full. A token read from the cache costs "
        f"{reads} of an input token.",
        "All models have the same weight. Intervals cover 95 %: tasks are drawn with replacement, with all their runs, "
        "and studentized; those of shares are t intervals with one more task at each end. "
        f"Models with fewer than {MIN_RUNS} runs are not in means.",
        f"Intervals of a sum of bills need {MIN_TASKS_OF_SUM} tasks, {MIN_DIFFERING_OF_SUM} of which differ from full, "
        "because a few large tasks make most of a sum. Those of the mean of the tasks need "
        f"{MIN_TASKS_ALIKE} and {MIN_DIFFERING_ALIKE}, and shares {MIN_TASKS} tasks.",
        "Runs of one conversation are cut into frames when a sub-goal is stated or tests turn green. The case fixed "
        f"cuts every {FIXED.least} steps; adaptive cuts when it advises frames.",
        "best: no fact that left the prompt, or that another frame found, was looked up again. middle, worst: half of "
        "them, or all, were. The last column is the share above which full costs less.",
        "The replies are those of the recording. A bill below 1 is a saving only if the work could have been done with "
        "the visible facts.",
    ]


def _rows(table: EvidenceTable) -> Iterator[tuple[str, ...]]:
    for line in sorted(table.lines, key=_order):
        yield (
            line.name,
            *(_cell(figure, percent=False) for figure in line.bills),
            *(_cell(figure, percent=True) for figure in line.dearer),
            _cell(line.lost, percent=True),
            f"{line.frames:.1f}",
            f"{line.rereads:.1f}",
            _turn(line),
        )


def _rows_alike(table: EvidenceTable) -> Iterator[tuple[str, ...]]:
    for line in sorted(table.lines, key=_order):
        yield (
            line.name,
            *(_cell(figure, percent=False) for figure in line.alike),
            f"{line.differing:,} of {table.tasks:,}",
        )


def _order(line: EvidenceLine) -> float:
    bill = line.bills[0]
    return bill.value if bill else inf


def _turn(line: EvidenceLine) -> str:
    if not line.turns:
        return ""
    share = line.turns[0]
    return "never" if share is None else f"{100 * share:.0f} %" if share else "always"


def _cell(figure: Interval | None, *, percent: bool) -> str:
    if figure is None:
        return "no facts"

    def spelled(value: float) -> str:
        return f"{100 * value:.0f} %" if percent else f"{value:.3f}" if value < inf else "∞"

    if figure.low is None or figure.high is None or figure.low == figure.high:
        return spelled(figure.value)
    return f"{spelled(figure.value)} [{spelled(figure.low)}, {spelled(figure.high)}]"


def _titled(table: EvidenceTable) -> str:
    models = f", {len(table.models)} models" if len(table.models) > 1 else ""
    return f"{table.title}: {table.runs:,} runs of {table.tasks:,} tasks{models}"


def _estimands(table: EvidenceTable) -> tuple[str, str]:
    """Return what the bills of the two tables of a set are."""
    models = " of each model, averaged over the models" if len(table.models) > 1 else ""
    return (
        f"Bills: the sum over all runs, divided by that of full{models}.",
        f"Bills: the mean of the tasks' own ratios to full{models}, so that a long task counts as much as a short one.",
    )


def _markdown(entries: Sequence[RecordingEntry], all_tables: Sequence[EvidenceTable]) -> str:
    lines = ["# Recordings under memory strategies", ""]
    lines += [line for sentence in (verdict(all_tables[0]) if all_tables else ()) for line in (escaped(sentence), "")]
    lines += [f"- {escaped(remark)}" for remark in _remarks(entries)]
    for table in all_tables:
        lines += ["", f"## {escaped(_titled(table))}"]
        for estimand, head, rows in zip(
            _estimands(table), (_HEADS, _HEADS_ALIKE), (_rows(table), _rows_alike(table)), strict=True
        ):
            lines += ["", estimand, "", _row(head), _row(["---", *("---:" for _ in head[1:])])]
            lines += [_row([escaped(cell) for cell in row]) for row in rows]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _page(entries: Sequence[RecordingEntry], all_tables: Sequence[EvidenceTable]) -> str:
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in _remarks(entries))
    answers = "<p class=empty>No recording could be used.</p>"
    if all_tables:
        first, sure = verdict(all_tables[0])
        answers = f"<p class=answer>{escape(first)}</p><p class=sure>{escape(sure)}</p>{forest_plot(all_tables[0])}"
        answers += price_slider()
    body = f"<section><h1>Recordings under memory strategies</h1>{answers}</section>"
    for table in all_tables:
        rows = [_HEADS, *_rows(table)]
        core = plain_table([[row[column] for column in _CORE] for row in rows])
        every = f"<details><summary>Every figure</summary>{plain_table(rows)}</details>"
        of_sums, of_tasks = (f"<p class=told>{escape(estimand)}</p>" for estimand in _estimands(table))
        alike = f"<details><summary>Every task alike</summary>{of_tasks}"
        alike += f"{plain_table([_HEADS_ALIKE, *_rows_alike(table)])}</details>"
        body += f"<section><h2>{escape(_titled(table))}</h2>{of_sums}{core}{every}{alike}</section>"
    body += f"<section><h2>How it was made</h2><div class=remarks>{remarks}</div></section>"
    style, script = asset("comparison.css") + color_styles(), asset("evidence.js")
    return _PAGE.format(style=style, body=body, script=script, script_digest=script_digest(script))


def _spreadsheet(tables: Sequence[EvidenceTable]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f"{figure}_{read:g}" for figure in ("bill", "alike", "dearer") for read in READS] + ["lost"]
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    writer.writerow(
        ["set", "runs", "tasks", "models", "strategy", "case", *ends, "differing", "frames", "again", "turns"]
    )
    for table in tables:
        for line in table.lines:
            name, _, case = line.name.partition(" ")
            whose = [_safe(table.title), table.runs, table.tasks, len(table.models), _safe(name), case]
            writer.writerow([*whose, *_ends(line), line.differing, line.frames, line.rereads, _turn(line)])
    return out.getvalue()


def _ends(line: EvidenceLine) -> Iterator[float | str]:
    for figure in (*line.bills, *line.alike, *line.dearer, line.lost):
        yield "" if figure is None else figure.value
        yield "" if figure is None or figure.low is None else figure.low
        yield "" if figure is None or figure.high is None else figure.high


def _safe(text: str) -> str:
    """Prefix a name that a spreadsheet would treat as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
