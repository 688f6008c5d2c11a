"""The cost of a user's n-th request under each strategy, for trials that are conversations."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated

import msgspec

from stackmem.core.pricing import Price
from stackmem.lab.bench import intervals
from stackmem.lab.bench.intervals import Interval

from .columns import as_text, range_text
from .figures import Wants, bill_of
from .plots import Slope
from .results import TrialRow
from .run_columns import Kind

FIFTH = 5
"""The request that the last one is compared with. By then the facts that all requests need have been found."""
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_KINDS = ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")


def request_costs(trial: TrialRow, price: Price, multiple: float) -> list[float]:
    """Return the USD of each request if a read costs ``multiple`` input tokens; empty if unknown."""
    figures = _lists(trial)
    tokens = [figures.get(name, []) for name in _KINDS]
    if len({len(counts) for counts in tokens}) != 1:
        return []
    return [bill_of(counts, price, multiple) for counts in zip(*tokens, strict=True)]


def request_slopes(trials: Sequence[TrialRow], wants: Wants) -> list[Slope]:
    """Return the mean cost of each request, for strategies with more than five requests."""
    by_strategy: dict[str, list[list[float]]] = {}
    for trial in trials:
        costs = request_costs(trial, wants.price, wants.read_multiple)
        if not trial.failed and len(costs) > FIFTH:
            by_strategy.setdefault(trial.strategy, []).append(costs)
    return [
        Slope(name, _means(costs_per_trial), _grown(costs_per_trial)) for name, costs_per_trial in by_strategy.items()
    ]


def _means(costs_per_trial: Sequence[Sequence[float]]) -> tuple[tuple[float, float], ...]:
    """Return the mean of each request with a cost above 0."""
    numbers = range(max(map(len, costs_per_trial)))
    means = ((at + 1.0, fmean(costs[at] for costs in costs_per_trial if len(costs) > at)) for at in numbers)
    return tuple((number, mean) for number, mean in means if mean > 0)


def _grown(costs_per_trial: Sequence[Sequence[float]]) -> Interval | None:
    return intervals.power_law(
        [(n, cost) for costs in costs_per_trial for n, cost in enumerate(costs, 1) if n >= FIFTH]
    )


def request_rows(trials: Sequence[TrialRow], wants: Wants) -> list[list[str]]:
    """Return the table with its header row; empty without conversations of more than five requests."""
    by_key: dict[tuple[str, ...], list[TrialRow]] = {}
    for trial in trials:
        if not trial.failed and len(request_costs(trial, wants.price, wants.read_multiple)) > FIFTH:
            by_key.setdefault((*trial.group, trial.text("horizon"), trial.strategy), []).append(trial)
    if not by_key:
        return []
    heads = ["strategy", "trials", "requests", f"request {FIFTH}", "last", "steps", "exponent"]
    heads += [f"last over {FIFTH}th, reads at {multiple:g}" for multiple in wants.multiples]
    several = len({key[:-1] for key in by_key}) > 1
    return [heads, *(_row(_name(key, several=several), key_trials, wants) for key, key_trials in by_key.items())]


def _name(key: tuple[str, ...], *, several: bool) -> str:
    """Return the strategy, with model, noise and horizon if they differ within the table."""
    *group, strategy = key
    return f"{strategy} ({', '.join(filter(None, group))})" if several else strategy


def _row(name: str, trials: Sequence[TrialRow], wants: Wants) -> list[str]:
    costs = [request_costs(trial, wants.price, wants.read_multiple) for trial in trials]
    steps = [step_counts for trial in trials if len(step_counts := _lists(trial).get("steps", [])) > FIFTH]
    counts = sorted({len(per_request) for per_request in costs})
    count_text = f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
    took = (
        " → ".join(f"{fmean(per_request[at] for per_request in steps):.1f}" for at in (FIFTH - 1, -1)) if steps else ""
    )
    cells = [name, f"{len(trials)}", count_text]
    cells += [_text(intervals.mean([per_request[at] for per_request in costs]), "usd") for at in (FIFTH - 1, -1)]
    cells += [took, _exponent(_grown(costs))]
    for multiple in wants.multiples:
        ends = [
            (per_request[-1], per_request[FIFTH - 1])
            for per_request in (request_costs(trial, wants.price, multiple) for trial in trials)
        ]
        cells.append(_text(intervals.ratio(ends), "ratio"))
    return cells


def _text(figure: Interval | None, kind: Kind) -> str:
    if figure is None:
        return ""
    interval = range_text(figure, kind)
    return as_text(figure.value, kind) + (f" ({interval})" if interval else "")


def _exponent(figure: Interval | None) -> str:
    if figure is None:
        return ""
    ends = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f} to {figure.high:.2f})"
    return f"{figure.value:.2f}{ends}"


def _lists(trial: TrialRow) -> dict[str, list[int]]:
    """Decode the row's per-request figures. A bench's files are untrusted, so invalid content counts as empty."""
    try:
        return msgspec.json.decode(trial.text("requests") or "{}", type=dict[str, list[_Count]])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}


def request_text() -> str:
    """Return the text above the table."""
    return (
        "Cost of a request in a conversation in USD, with 95 % intervals over trials: the fifth, the last, and the "
        "growth from the fifth on. An exponent of 0 means no growth, 1 growth with the number of requests. Steps are "
        "those of the fifth and the last request."
    )
