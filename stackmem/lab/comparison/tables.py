"""The tables of the page, and the list of trials that the page's numbers link to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from itertools import groupby
from math import isfinite
from pathlib import Path
from urllib.parse import quote

from stackmem.lab.bench.statistics import ALIKE, NONE_SHOWN, TOO_FEW

from .anchors import Anchors
from .columns import as_text, cell_texts, columns, comparison_of, figure_of
from .figures import Line, Section, Wants, bill, bill_name
from .findings import findings
from .results import BenchRows, TrialRow
from .run_columns import MEMORY, Column
from .svg import chip

_MARKS = {"better": "▲ better", "worse": "▼ worse", ALIKE: "≈ alike", NONE_SHOWN: NONE_SHOWN, TOO_FEW: TOO_FEW}


def verdicts(section: Section, wants: Wants) -> str:
    """Return the findings of a section as a list; empty if it compares nothing."""
    items = "".join(f"<li>{escape(finding)}</li>" for finding in findings(section, wants))
    return f"<ul class=findings>{items}</ul>" if items else ""


def table(section: Section, wants: Wants, anchors: Anchors) -> str:
    """Return the table of a section: a row per strategy, with each number linked to its trials."""
    all_columns = columns(section, wants)
    rows = "".join(_row(line, section, all_columns, wants, anchors) for line in section.lines)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(section.title)}">'
        f"<table><thead>{_heads(all_columns, wants)}</thead><tbody>{rows}</tbody></table></div>"
    )


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts without links; the first row is the header."""
    heads, *rest = ([escape(cell) for cell in row] for row in rows)
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row" class="who">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rest
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _heads(all_columns: Sequence[Column], wants: Wants) -> str:
    """Return the header: column groups that the reader can toggle, and column names with descriptions."""
    groups = "".join(
        f'<th scope="colgroup" colspan="{len(list(members))}" class="group{" memory" if name == MEMORY else ""}" '
        f'data-group="{number}">{escape(name)}</th>'
        for number, (name, members) in enumerate(groupby(all_columns, key=lambda column: column.group))
    )
    names = "".join(
        f'<th scope="col" class="{_kind(column, all_columns, wants)}"><button title="{escape(column.tells)}">'
        f"{escape(column.title)}</button></th>"
        for column in all_columns
    )
    first = '<th scope="col" class="who"><button>strategy</button></th>'
    trials = '<th scope="col" class="n many"><button>trials</button></th>'
    return f"<tr><td class=who></td><td class=many></td>{groups}</tr><tr>{first}{trials}{names}</tr>"


def _row(line: Line, section: Section, all_columns: Sequence[Column], wants: Wants, anchors: Anchors) -> str:
    target = anchors.of_line(section, line.strategy)
    counted = f"{line.trials}" + (f'<i class="worse">+{line.errors} failed</i>' if line.errors else "")
    base = ' class="base"' if line.strategy == wants.baseline else ""
    cells = "".join(_cell(line, column, target, _kind(column, all_columns, wants)) for column in all_columns)
    name_html = f"{chip(anchors.family(line.strategy), anchors.hue(line.strategy))}{escape(line.strategy)}"
    return (
        f'<tr{base} data-strategy="{anchors.strategy(line.strategy)}">'
        f'<th scope="row" class="who"><a href="#{target}">{name_html}</a></th>'
        f'<td class="n many" data-value="{line.trials}"><a href="#{target}">{counted}</a></td>{cells}</tr>'
    )


def _cell(line: Line, column: Column, target: str, kind: str) -> str:
    value, interval, verdict = cell_texts(line, column)
    figure = figure_of(line, column)
    if figure is None:
        return f'<td class="{kind}"><span class="none" title="not measured">–</span></td>'
    content = f"<b>{escape(value)}</b>" + (f"<i>{escape(interval)}</i>" if interval else "")
    comparison = comparison_of(line, column)
    if comparison is not None:
        details = f"n = {comparison.effect.count}, p = {comparison.p_corrected:.2g} after the correction"
        content += f'<em class="{verdict.split()[0]}" title="{details}">{_MARKS[verdict]}</em>'
    return f'<td class="{kind}" data-value="{figure.value!r}"><a href="#{target}">{content}</a></td>'


def _kind(column: Column, all_columns: Sequence[Column], wants: Wants) -> str:
    """Return the CSS classes of a column.

    The first column of a group has a line before it. Success, bill and peak stay visible whichever groups are selected.
    """
    groups = list(dict.fromkeys(other.group for other in all_columns))
    classes = [f"g{groups.index(column.group)}"]
    if not column.against and column.key in ("solved", bill_name(wants.read_multiple), "peak_context_tokens"):
        classes.append("core")
    if next(other for other in all_columns if other.group == column.group) is column:
        classes.append("first")
    classes += ["held"] * column.against + ["memory"] * (column.group == MEMORY)
    return " ".join(classes)


_HEADS = ("task", "horizon", "seed", "outcome", "steps", "peak", "bill", "run")


def trial_list(results: BenchRows, wants: Wants, anchors: Anchors, page: Path) -> str:
    """Return a list per strategy, ordered by horizon and task. ``page`` is the path of the report."""
    by_strategy: dict[tuple[tuple[str, str], str], list[TrialRow]] = {}
    for trial in results.trials:
        by_strategy.setdefault((trial.group, trial.strategy), []).append(trial)
    many = len({group for group, _ in by_strategy}) > 1
    lists = []
    for (group, strategy), trials in by_strategy.items():
        whose = f" · {group[0]} · noise {group[1]}" if many else ""
        solved = sum(trial.solved == 1 for trial in trials)
        rows = _rows(sorted(trials, key=_order), results.folder, wants, anchors, page)
        heads = "".join(f'<th scope="col">{name}</th>' for name in _HEADS)
        lists.append(
            f'<details class="trials" id="{anchors.of_strategy(group, strategy)}"><summary>'
            f"{chip(anchors.family(strategy), anchors.hue(strategy))}<b>{escape(strategy)}</b>"
            f"<span>{solved} of {len(trials)} solved{escape(whose)}</span></summary>"
            f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
        )
    return "".join(lists)


def _rows(trials: Sequence[TrialRow], folder: Path, wants: Wants, anchors: Anchors, page: Path) -> str:
    seen, rows = set[str](), []
    for trial in trials:
        new = [anchor for anchor in anchors.of_trial(trial) if anchor not in seen]
        seen.update(new)
        places = "".join(
            f'<a id="{anchor}"></a>' for anchor in new if anchor != anchors.of_strategy(trial.group, trial.strategy)
        )
        rows.append(f"<tr><td>{places}{escape(trial.task)}</td>{_cells(trial, folder, wants, page)}</tr>")
    return "".join(rows)


def _cells(trial: TrialRow, folder: Path, wants: Wants, page: Path) -> str:
    steps, peak = trial.number("steps"), trial.number("peak_context_tokens")
    cost = bill(trial, wants.price, wants.read_multiple)
    outcome = trial.text("outcome") or "unknown"
    reason = trial.text("error") or (trial.text("ending") if outcome not in ("solved", "finished") else "")
    kind = "worse" if trial.failed or trial.solved == 0 else "better" if trial.solved == 1 else ""
    cells = (
        trial.text("horizon"),
        trial.text("seed"),
        f"{steps:.0f}" if isfinite(steps) else "",
        as_text(peak, "tokens") if isfinite(peak) else "",
        as_text(cost, "usd") if isfinite(cost) else "",
    )
    horizon, seed, *rest = (f"<td class=n>{escape(text)}</td>" for text in cells)
    outcome_cell = f'<td><span class="{kind}">{escape(outcome)}</span> <small>{escape(reason[:300])}</small></td>'
    return f"{horizon}{seed}{outcome_cell}{''.join(rest)}<td>{_run(trial, folder, page)}</td>"


def _run(trial: TrialRow, folder: Path, page: Path) -> str:
    """Return a link to the run's page if it exists, otherwise to its folder.

    Links are relative, so that report and runs can be moved together. Paths outside the bench folder are not linked.
    """
    run = trial.text("run")
    if not run:
        return '<span class="none">not kept</span>'
    target = folder / run
    inside = not Path(run).is_absolute() and ".." not in Path(run).parts
    if not inside or "\0" in run:
        return escape(run)
    try:
        target = target / "view.html" if (target / "view.html").is_file() else target
    except OSError:
        return escape(run[:80])
    to = os.path.relpath(target.absolute(), page.absolute().parent)
    return f'<a href="{escape(quote(f"./{to}"))}">{escape(Path(run).name)}</a>'


def _order(trial: TrialRow) -> tuple[float, str, float, str]:
    horizon, seed = trial.horizon, trial.number("seed")
    return (horizon if isfinite(horizon) else -1, trial.task, seed if isfinite(seed) else -1, trial.text("id"))
