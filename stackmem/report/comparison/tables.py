"""The tables of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from stackmem.bench.statistics import NONE_SHOWN

from .anchors import Anchors
from .columns import MEMORY, Column, cell_texts, columns, comparison_of, figure_of
from .figures import Line, Section, Wants
from .findings import findings

_GROUP = {MEMORY: "group memory"}
_MARKS = {"better": "▲ better", "worse": "▼ worse", NONE_SHOWN: "no difference shown"}


def table(section: Section, wants: Wants, anchors: Anchors) -> str:
    """One section: what it shows in words, and a row for each strategy, each number a link to its trials."""
    shown = columns(section, wants)
    said = "".join(f"<li>{escape(finding)}</li>" for finding in findings(section, wants))
    rows = "".join(_row(line, section, shown, wants, anchors) for line in section.lines)
    return (
        f'{f"<ul class=findings>{said}</ul>" if said else ""}<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(section.title)}"><table><thead>{_heads(shown)}</thead><tbody>{rows}</tbody></table></div>'
    )


def _heads(shown: Sequence[Column]) -> str:
    groups = "".join(
        f'<th scope="colgroup" colspan="{len(list(members))}" class="{_GROUP.get(name, "group")}">{escape(name)}</th>'
        for name, members in groupby(shown, key=lambda column: column.group)
    )
    names = "".join(
        f'<th scope="col" class="{_kind(column, shown)}"><button title="{escape(column.tells)}">'
        f"{escape(column.title)}</button></th>"
        for column in shown
    )
    first = '<th scope="col" class="who"><button>strategy</button></th>'
    trials = '<th scope="col" class="n"><button>trials</button></th>'
    return f"<tr><th class=who></th><th></th>{groups}</tr><tr>{first}{trials}{names}</tr>"


def _row(line: Line, section: Section, shown: Sequence[Column], wants: Wants, anchors: Anchors) -> str:
    target = anchors.of_line(section, line.strategy)
    counted = f"{line.trials}" + (f'<i class="worse">+{line.errors} failed</i>' if line.errors else "")
    base = ' class="base"' if line.strategy == wants.baseline else ""
    cells = "".join(_cell(line, column, target, _kind(column, shown)) for column in shown)
    who = f'<span class="chip f-{anchors.family(line.strategy)}"></span>{escape(line.strategy)}'
    return (
        f'<tr{base} data-strategy="{anchors.strategy(line.strategy)}">'
        f'<th scope="row" class="who"><a href="#{target}">{who}</a></th>'
        f'<td class="n" data-value="{line.trials}"><a href="#{target}">{counted}</a></td>{cells}</tr>'
    )


def _cell(line: Line, column: Column, target: str, kind: str) -> str:
    value, within, verdict = cell_texts(line, column)
    figure = figure_of(line, column)
    if figure is None:
        return f'<td class="{kind}"><span class="none" title="not measured">–</span></td>'
    said = f"<b>{escape(value)}</b>" + (f"<i>{escape(within)}</i>" if within else "")
    held = comparison_of(line, column)
    if held is not None:
        why = f"{held.difference.count} pairs, p = {held.p_corrected:.2g} after the correction"
        said += f'<em class="{verdict.split()[0]}" title="{why}">{_MARKS[verdict]}</em>'
    return f'<td class="{kind}" data-value="{figure.value!r}"><a href="#{target}">{said}</a></td>'


def _kind(column: Column, shown: Sequence[Column]) -> str:
    """The first of a group has a line before it."""
    first = next(one for one in shown if one.group == column.group) is column
    told = ("first" if first else "", "held" if column.against else "", "memory" if column.group == MEMORY else "")
    return " ".join(filter(None, told)) or "plain"
