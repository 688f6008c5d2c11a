"""The report as one self-contained HTML file with tables, plots, and every trial.

Names and errors come from outside and can be hostile. They appear only as escaped text and ids are numbers. The content
security policy allows only the page's own style and script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import isfinite
from pathlib import Path

from stackmem.review.report.colors import color_styles
from stackmem.review.report.page import asset, script_digest

from .anchors import FAMILIES, Anchors
from .answer import answer, certainty
from .expectations import expectation_rows, expectation_text
from .figures import Section, Wants, bill
from .findings import READING, facts, remarks
from .plots import Curve, frontier, loss_curves, loss_plot, slope_plot, slopes, solved_alike, spots
from .requests import request_rows, request_slopes, request_text
from .results import BenchRows, TrialRow
from .stability import map_rows, map_text, stability_maps
from .svg import chip
from .tables import plain_table, table, trial_list, verdicts

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Strategies side by side · stackmem</title>
<style>{style}</style>
</head>
<body>
<header class="top">{brand}<nav>{nav}</nav><button id="theme" class="icon" \
aria-label="Light or dark" title="Light or dark">◐</button></header>
<main>{body}</main>
<script>{program}</script>
</body>
</html>
"""
_WIDE, _HALF, _NARROW = 1_140, 556, 350


def page(results: BenchRows, all_sections: Sequence[Section], wants: Wants, path: Path, home: str = "") -> str:
    """Return the whole page for a file at ``path``. ``home`` is the address of the list it belongs to, if any."""
    style, program = asset("comparison.css") + color_styles(), asset("comparison.js")
    policy = (
        f"default-src 'none'; script-src {script_digest(program)}; style-src {script_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    anchors = Anchors(results)
    parts = [("Verdict", _summary(results, all_sections, wants))]
    if results.trials:
        parts += _stability(all_sections, wants)
        parts += _groups(results, all_sections, wants, anchors)
        parts += _families(results, wants)
        parts.append(
            ("Trials", _card("Trials", "The numbers above link here.", trial_list(results, wants, anchors, path)))
        )
    parts.append(("How it was made", _facts_html(results, wants)))
    body = "".join(f'<section id="p{number}">{inside}</section>' for number, (_, inside) in enumerate(parts))
    nav = "".join(f'<a href="#p{number}">{escape(name)}</a>' for number, (name, _) in enumerate(parts))
    brand = '<span class="brand">stackmem</span>'
    if home:
        brand = f'<a class="brand" href="{escape(home)}" title="All runs and benches">stackmem</a>'
    return _PAGE.format(policy=policy, style=style, brand=brand, nav=nav, body=body, program=program)


def _families(results: BenchRows, wants: Wants) -> list[tuple[str, str]]:
    """Return the section on whom each family hurts; empty if too few families ran."""
    rows = expectation_rows(results.trials, wants)
    return (
        [("Families", _card("Strategies that each family hurts", expectation_text(wants), plain_table(rows)))]
        if rows
        else []
    )


def _stability(all_sections: Sequence[Section], wants: Wants) -> list[tuple[str, str]]:
    """Return the maps of verdicts that depend on the model; empty with only one model."""
    cards = [
        _card(
            f"Which verdicts depend on the model · {stability_map.title}",
            map_text(stability_map),
            plain_table(map_rows(stability_map, wants)),
        )
        for stability_map in stability_maps(all_sections, wants)
    ]
    return [("Models", "".join(cards))] if cards else []


def _groups(
    results: BenchRows, all_sections: Sequence[Section], wants: Wants, anchors: Anchors
) -> Iterator[tuple[str, str]]:
    """Yield the sections of each model and noise: plots, the whole, horizons and tasks."""
    groups = list(dict.fromkeys((section.model, section.noise) for section in all_sections))
    for group in groups:
        group_sections = [section for section in all_sections if (section.model, section.noise) == group]
        trials = [trial for trial in results.trials if trial.group == group]
        of = "" if len(groups) == 1 else f" · {group[0]}" + (f" · noise {group[1]}" if group[1] else "")
        overall, horizons = group_sections[0], [each for each in group_sections[1:] if not each.task]
        tasks = [each for each in group_sections if each.task]
        plots = list(_plots(trials, horizons or [overall], group, of, wants, anchors))
        yield from plots[:1]
        yield f"Overall{of}", _card(f"{overall.title}{of}", "", table(overall, wants, anchors))
        yield from _requests(trials, group, of, wants, anchors)
        yield from plots[1:]
        if horizons:
            yield f"Horizons{of}", _folded(f"By horizon{of}", horizons, wants, anchors)
        if tasks:
            yield f"Tasks{of}", _folded(f"By task{of}", tasks, wants, anchors)


def _requests(
    trials: Sequence[TrialRow], group: tuple[str, str], of: str, wants: Wants, anchors: Anchors
) -> Iterator[tuple[str, str]]:
    """Yield the section on the costs of requests, for conversations."""
    rows, slopes_shown = request_rows(trials, wants), request_slopes(trials, wants)
    if not rows:
        return
    says = f"mean cost of a request, USD, reads at {wants.read_multiple:g}"

    def draw(width: int) -> str:
        return slope_plot(slopes_shown, says, group, wants, anchors, width, "request")

    inside = _figures([("", draw)]) + plain_table(rows)
    yield f"Requests{of}", _card(f"Cost of the n-th request{of}", request_text(), inside)


def _plots(
    trials: Sequence[TrialRow],
    sections: Sequence[Section],
    group: tuple[str, str],
    of: str,
    wants: Wants,
    anchors: Anchors,
) -> Iterator[tuple[str, str]]:
    drawings = [
        (section.title, lambda width, section=section: frontier(section, wants, anchors, width)) for section in sections
    ]
    alike = all(solved_alike(points) for section in sections if (points := spots(section, wants)))
    caption = (
        "Cost of a trial against success rate, with 95 % intervals. The line joins the strategies that no other beats "
        "in both. Strategies below it cost more or solve less."
    )
    if alike:
        caption = "Cost of a trial, with 95 % intervals. The success rates are equal."
    if inside := _figures(drawings):
        yield f"Frontier{of}", _card(f"Bill against success{of}", caption, _legend(trials, anchors) + inside)
    price, multiple = wants.price, wants.read_multiple
    cost = slopes(trials, lambda trial: bill(trial, price, multiple))
    peak = slopes(trials, lambda trial: trial.number("peak_context_tokens"))
    bills = f"mean bill of a trial, USD, reads at {multiple:g}"
    grown = [
        ("Peak context", lambda width: slope_plot(peak, "peak context, tokens", group, wants, anchors, width)),
        ("Bill", lambda width: slope_plot(cost, bills, group, wants, anchors, width)),
    ]
    caption = (
        "Both axes are logarithmic: a straight line is a power of the horizon. Each name is followed by the exponent "
        "fitted over its trials, with its 95 % interval: 0 means no growth, 1 growth with the work, 2 with its square. "
        "If two horizons of 100 or more were run, the fit starts there, because the fixed start of each prompt "
        "dominates below."
    )
    if inside := _figures(grown):
        yield f"Growth{of}", _card(f"Growth with the horizon{of}", caption, inside)
    lost = [
        (
            f"{section.title}: {says}",
            _lost(loss_curves(_of(trials, section), column), section.title, group, wants, anchors),
        )
        for section in sections
        for column, says in (("first_loss_step", "visible"), ("first_gone_step", "visible, or on the heap"))
    ]
    caption = (
        "The share of trials, by step, in which every fact stayed in the prompts from its first appearance to its use. "
        "Trials leave the curve when they end (Kaplan and Meier)."
    )
    if inside := _figures(lost):
        yield f"First loss{of}", _card(f"When the first fact was lost{of}", caption, inside)


def _lost(
    curves: Sequence[Curve], title: str, group: tuple[str, str], wants: Wants, anchors: Anchors
) -> Callable[[int], str]:
    return lambda width: loss_plot(curves, title, group, wants, anchors, width)


def _of(trials: Sequence[TrialRow], section: Section) -> list[TrialRow]:
    return [trial for trial in trials if not isfinite(section.horizon) or trial.horizon == section.horizon]


def _figures(drawings: Sequence[tuple[str, Callable[[int], str]]]) -> str:
    """Draw each plot twice, for a wide window and for a phone. A single plot takes the full width."""
    plots = [(title, draw, wide) for title, draw in drawings if (wide := draw(_HALF))]
    if not plots:
        return ""
    figures = []
    for title, draw, half in plots:
        wide = half if len(plots) > 1 else draw(_WIDE)
        name = f"<figcaption>{escape(title)}</figcaption>" if len(drawings) > 1 else ""
        figures.append(
            f'<figure>{name}<div class="wide">{wide}</div><div class="narrow">{draw(_NARROW)}</div></figure>'
        )
    return f'<div class="figures{" single" if len(plots) == 1 else ""}">{"".join(figures)}</div>'


def _legend(trials: Sequence[TrialRow], anchors: Anchors) -> str:
    used = {anchors.family(trial.strategy) for trial in trials}
    return "<p class=legend>" + "".join(
        f"<span>{chip(name)}{escape(does)}</span>"
        for name, (does, _) in FAMILIES.items()
        if name in used
    ) + "</p>"  # fmt: skip


def _summary(results: BenchRows, all_sections: Sequence[Section], wants: Wants) -> str:
    """Return the summary at the top: findings, numbers of trials, and remarks on the model."""
    values = dict(facts(results, wants))
    names = ("trials", "strategies", "tasks", "horizons", "models", "baseline")
    lead = " · ".join(f"{name} {values[name]}" for name in names if name in values)
    groups = dict.fromkeys((section.model, section.noise) for section in all_sections)
    verdict_html = ""
    for group in groups:
        overall = next(section for section in all_sections if (section.model, section.noise) == group)
        if (words := verdicts(overall, wants)) and len(groups) > 1:
            verdict_html += f"<h2>{escape(group[0])}{escape(f' · noise {group[1]}' if group[1] else '')}</h2>"
        verdict_html += _answer_html(overall, wants) + words
    remark_html = "".join(f"<p>{escape(remark)}</p>" for remark in remarks(results, wants) if remark != READING)
    empty = "" if results.trials else "<p class=empty>No trial has ended yet.</p>"
    after = f"<div class=remarks>{remark_html}</div>" if remark_html else ""
    return f"<h1>Strategies side by side</h1>{empty}{verdict_html}<p class=told>{escape(lead)}</p>{after}"


def _answer_html(section: Section, wants: Wants) -> str:
    """Return the answer of a section and how sure it is, as two lines."""
    first, second = answer(section, wants), certainty(section, wants)
    return f"<p class=answer>{escape(first)}</p><p class=sure>{escape(second)}</p>" if first else ""


def _facts_html(results: BenchRows, wants: Wants) -> str:
    rows = "".join(
        f"<div{' class=long' if len(text) > 90 else ''}><dt>{escape(name)}</dt>"
        f"<dd>{escape(text)}{_copy(name)}</dd></div>"
        for name, text in facts(results, wants)
    )
    return f"<h2>How it was made</h2><dl class=known>{rows}</dl><div class=remarks><p>{escape(READING)}</p></div>"


def _copy(name: str) -> str:
    return ' <button class="copy" aria-label="Copy the command">copy</button>' if name == "command" else ""


def _folded(title: str, group_sections: Sequence[Section], wants: Wants, anchors: Anchors) -> str:
    items = "".join(
        f"<details class=set><summary><b>{escape(section.title)}</b><span>{_best(section)}</span></summary>"
        f"{verdicts(section, wants)}{table(section, wants, anchors)}</details>"
        for section in group_sections
    )
    return _card(title, "", items)


def _best(section: Section) -> str:
    solved = [(line.strategy, line.figures["solved"]) for line in section.lines]
    count = sum(1 for _, share in solved if share is not None and share.value == 1)
    return f"{count} of {len(solved)} strategies solve all"


def _card(title: str, caption: str, inside: str) -> str:
    return f"<h2>{escape(title)}</h2>{f'<p class=told>{escape(caption)}</p>' if caption else ''}{inside}"
