"""``stackmem whatif``."""

from __future__ import annotations

import typer

from stackmem.cli.options import JsonArray, argument, flag, option, runs_folder
from stackmem.cli.screen.text import align, echo_json, one_line, terminal_width, without_columns, wrapped
from stackmem.core.text import quantity
from stackmem.lab.whatif.hypothetical import phase_rule
from stackmem.lab.whatif.recorded import WhatIf, WhatIfQuestion, WhatIfRow, parse_strategies, what_if
from stackmem.lab.whatif.rendered import WhatIfOutcome
from stackmem.review.measure.first_loss import FirstLoss
from stackmem.review.shown_work import shown_work
from stackmem.run.plugins.loading import load_plugins

_PROMPTS, _LOSSES = ("strategy", "peak", "mean"), ("ratio", "first loss", "lost", "gone", "note")
_HEADS = {
    "USD": (*_PROMPTS, "read", "written", "uncached", "output", "bill", *_LOSSES),
    "tokens": (*_PROMPTS, "cached", "evaluated", "output", "seconds", *_LOSSES),
}
# columns to drop on a narrow terminal, in this order
_SPARED = ("uncached", "written", "evaluated", "output", "cached", "read", "mean", "gone", "lost", "first loss")


def command(
    traces: list[str] = argument("TRACE", "Runs (folder, id, prefix, 'last'), or other agents' recordings."),
    strategies: str = option("--strategies", "Strategies, separated by commas, or 'all'.", "LIST", default="all"),
    price: str | None = option(
        "--price", "The model whose prices and cache apply; by default the recorded one.", "MODEL"
    ),
    latency: float | None = option(
        "--latency", "Time between requests; by default as recorded.", "SECONDS", min=0.0, max=86_400.0
    ),
    window_tokens: int | None = option(
        "--window-tokens",
        "The window; by default the price model's, or the run's own for runs of stackmem.",
        "N",
        min=1,
    ),
    phases: str = option(
        "--phases",
        "How a flat run is cut into frames: boundaries, sub-goals, green, none, or a number of steps.",
        "RULE",
        default="boundaries",
    ),
    runs_dir: str | None = flag("runs_dir"),
    json: JsonArray = False,
) -> None:
    """Compute the prompts and the cost of a recorded run under other strategies, with the same actions."""
    load_plugins()
    folder = runs_folder(runs_dir)
    question = WhatIfQuestion(parse_strategies(strategies), price, latency, window_tokens, phase_rule(phases))
    results: list[WhatIf] = []
    for trace in traces:
        recordings = what_if(trace, folder, question)
        while True:
            with shown_work():
                result = next(recordings, None)
            if result is None:
                break
            if not json:
                typer.echo("\n".join([*([""] if results else []), *_lines(result, terminal_width())]))
            results.append(result)
    if json:
        echo_json(results)
    elif len(results) > 1:
        typer.echo("\n".join(["", *_totals(results, terminal_width())]))


def _lines(result: WhatIf, width: int | None) -> list[str]:
    """Return a description of the run, a row for each strategy, and a legend."""
    whose = f"imported from {result.imported}, " if result.imported else ""
    paced = "at the recorded times" if result.latency_seconds is None else f"{result.latency_seconds:g} s apart"
    lines = [
        _answer(result),
        one_line(f"{result.run}: {whose}{quantity(result.steps, 'step')}, {quantity(result.frames, 'frame')}"),
        one_line(f"{_whose(result)} of {result.price}, tokens counted as {result.counted}"),
        f"requests {paced}; a window of {result.window_tokens:,} tokens",
    ]
    if result.estimated_replies:
        lines.append(
            f"~ the recording lacks the usage of {result.estimated_replies:,} replies; their length is an estimate"
        )
    head = _HEADS[result.unit]
    ordered = sorted(result.rows, key=lambda row: (row.ratio is None, row.ratio or 0.0))
    rows = [head, *(_cells(row, result.unit) for row in ordered)]
    visible = without_columns(rows, _SPARED, width)
    table = align(visible, (0, len(visible[0]) - 1), width=width)
    legend = [
        "",
        f"* the strategy of the recording; ratio: {'its bill is' if result.unit == 'USD' else 'its seconds are'} 1",
    ]
    legend.append("lost: facts used later that had left the prompt; gone: those of them that were not stored either")
    if any(row.outcome and row.outcome.estimated for row in result.rows):
        legend.append("~ an estimate: summaries are not recorded, so a bounded extract of the turns replaces each")
    return [*map(wrapped, lines), "", *table, *map(wrapped, legend)]


def _answer(result: WhatIf) -> str:
    """Return which strategy would have cost least, compared with the recorded one."""
    recorded = next((row for row in result.rows if row.recorded), None)
    priced = [row for row in result.rows if row.ratio is not None]
    if recorded is None or recorded.ratio is None or len(priced) < 2:
        return f"The costs of {one_line(result.run)} cannot be compared: a bill is unknown, or there is one strategy."
    best = min(priced, key=lambda row: row.ratio or 0.0)
    own, name, does = one_line(recorded.strategy), one_line(best.strategy), "cost" if result.unit == "USD" else "take"
    saved = round(100 * (1 - (best.ratio or 0.0)))
    if best.recorded or saved < 1:
        return f"No strategy would {does} less than {own}, which was recorded."
    loss = best.outcome.loss if best.outcome else None
    warning = f"; {loss.lost:,} of {loss.facts:,} used facts would be out of sight" if loss and loss.lost else ""
    return f"{name} would {does} {saved} % less than {own}, which was recorded{warning}."


def _whose(result: WhatIf) -> str:
    return "prices and cache" if result.unit == "USD" else "speed and cache"


def _totals(results: list[WhatIf], width: int | None) -> list[str]:
    """Return a row for each strategy over several recordings. Ratios use recordings with both bills known."""
    names = dict.fromkeys(row.strategy for result in results for row in result.rows)
    rows = [("strategy", "recordings", "peak", "bill", "ratio", "with a loss", "")]
    for name in names:
        outcomes = [
            (result.rows[0].outcome, row.outcome) for result in results for row in result.rows if row.strategy == name
        ]
        applied = [(base, own) for base, own in outcomes if own is not None]
        if not applied:
            continue
        prefix = "~" if any(own.estimated for _, own in applied) else ""
        pairs = [(base.usd, own.usd) for base, own in applied if base and base.usd and own.usd is not None]
        bill, base_bill = sum(own for _, own in pairs), sum(base for base, _ in pairs)
        timed = [
            (base.seconds, own.seconds) for base, own in applied if base and base.seconds and own.seconds is not None
        ]
        seconds, base_seconds = sum(own for _, own in timed), sum(base for base, _ in timed)
        rows.append((
            one_line(name),
            f"{len(applied):,}",
            f"{prefix}{max(own.peak_tokens for _, own in applied):,}",
            f"{prefix}${bill:,.4f}" if pairs else f"{prefix}{seconds:,.1f} s" if timed else "unknown",
            f"{prefix}{bill / base_bill:.2f}" if pairs else f"{prefix}{seconds / base_seconds:.2f}" if timed else "",
            f"{sum(own.loss.step is not None for _, own in applied):,}",
            "",
        ))  # fmt: skip
    head = f"{quantity(len(results), 'recording')} in total; ratio: to the bills of their recorded strategies"
    return [head, "", *align(rows, (0, len(rows[0]) - 1), width=width)]


def _cells(row: WhatIfRow, unit: str) -> tuple[str, ...]:
    name = one_line(row.strategy) + (" *" if row.recorded else "")
    outcome = row.outcome
    if outcome is None:
        return (name, *[""] * (len(_HEADS[unit]) - 2), one_line(row.note))
    usage, prefix = outcome.usage, "~" if outcome.estimated else ""
    notes = [row.note] if row.note else []
    if outcome.summaries:
        notes.insert(0, f"{outcome.summaries} {'summary' if outcome.summaries == 1 else 'summaries'}")
    if outcome.too_long_from is not None:
        notes.insert(0, f"longer than the window from step {outcome.too_long_from}")
    written = usage.cache_write_5m + usage.cache_write_1h
    fresh = (written, usage.uncached) if unit == "USD" else (outcome.evaluated_tokens,)
    return (
        name,
        *(f"{prefix}{size:,.0f}" for size in (outcome.peak_tokens, outcome.mean_tokens)),
        *(f"{prefix}{tokens:,}" for tokens in (usage.cache_read, *fresh, usage.output)),
        _cost(outcome, unit, prefix),
        "" if row.ratio is None else f"{prefix}{row.ratio:.2f}",
        *_loss(outcome.loss),
        one_line("; ".join(notes)),
    )


def _cost(outcome: WhatIfOutcome, unit: str, prefix: str) -> str:
    if unit == "USD":
        return "unknown" if outcome.usd is None else f"{prefix}${outcome.usd:,.4f}"
    return "unknown" if outcome.seconds is None else f"{prefix}{outcome.seconds:,.1f}"


def _loss(loss: FirstLoss) -> tuple[str, str, str]:
    if not loss.facts:
        return "no facts", "", ""
    first = "none" if loss.step is None else f"step {loss.step:,}"
    return first, f"{loss.lost:,} of {loss.facts:,}", f"{loss.gone:,}"
