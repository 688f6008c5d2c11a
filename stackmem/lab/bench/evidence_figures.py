"""Figures for a study of recordings. Models count equally, and tasks are resampled as a whole.

All models of interactive agents together count as one model.

A figure is a ratio of sums: of bills, facts or runs. The bootstrap draws tasks with replacement and always takes all
runs of a task together, across models. An interval of bills is studentized, on the logarithm and with Hall's
transformation: tasks differ in size, so sums over few tasks are skewed, and the middle 95 % of the draws would be too
narrow. A share has the t interval over the tasks plus one task at each end, from eight tasks on.

A few long sessions make most of a sum of bills. A sample without them cannot show that they are missing, and no method
found covers the truth with fewer than ``MIN_TASKS_OF_SUM`` tasks. So bills have a second estimand, the mean of the
tasks' own ratios, in which every task counts alike. Neither has an interval if the bills differ in few tasks. When
several models are pooled, models with fewer than five runs are excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.lab.whatif.hypothetical import REREAD_SHARES
from stackmem.trace.long_work import report_work, tracked

from .evidence import CASES, INTERACTIVE, READS, RecordingEntry
from .intervals import (
    CONFIDENCE,
    SEED,
    Interval,
    arrays,
    halls_distance,
    halls_transformation,
    t_quantile,
)

MIN_TASKS, MIN_RUNS = 8, 5
MIN_TASKS_OF_SUM, MIN_DIFFERING_OF_SUM = 75, 25
"""With fewer tasks, or fewer that differ, intervals of a sum left out the truth of real sessions too often."""
MIN_TASKS_ALIKE, MIN_DIFFERING_ALIKE = 20, 8
_NOTICEABLE = 0.001
"""The relative difference of a task's bills from which on the task counts as different."""
ANY_MODEL = "any model"
OVERRUN_RATIO = 1.02
"""A run that costs more than this multiple of the ``full`` bill counts as more expensive."""
LENGTHS = ((1, 15), (16, 30), (31, 60), (61, 10**9))
_BOOTSTRAP_SAMPLES = 2_000

Sums = Callable[[RecordingEntry], tuple[float, float]]


class EvidenceLine(Struct, frozen=True):
    """The figures of one strategy over a set of recordings."""

    name: str  # the strategy and its case
    # its bill divided by that of ``full``, at each price in ``READS``: the sum over all tasks, and the mean of the
    # tasks' own ratios
    bills: tuple[Interval | None, ...]
    alike: tuple[Interval | None, ...]
    differing: int  # tasks whose bill differs from that of ``full``, at the first price
    # share of runs above ``OVERRUN_RATIO`` times the bill of ``full``, at each price
    dearer: tuple[Interval | None, ...]
    lost: Interval | None  # share of the used facts that had left the prompt
    frames: float  # mean number of hypothetical frames per run
    rereads: float  # mean number of results looked up again per run
    # the share of lost or handed-over facts above which ``full`` costs less, at each price; 0 if it always does, None
    # if it never does. Only for the middle case.
    turns: tuple[float | None, ...] = ()
    # per model, the sums of its bills and those of ``full``, at each price
    sums: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = ()


class EvidenceTable(Struct, frozen=True):
    """The figures of every strategy over one set of recordings."""

    title: str
    runs: int
    tasks: int
    models: tuple[str, ...]
    lines: tuple[EvidenceLine, ...]


def tables(entries: Sequence[RecordingEntry]) -> tuple[EvidenceTable, ...]:
    """Return tables for all recordings, by agent, by length, and by model. Recordings without figures are excluded."""
    billed = [entry for entry in entries if entry.bills]
    usable = [in_one_sum(entry) if entry.agent in INTERACTIVE else entry for entry in billed]
    report_work("tables", 0, 0)
    result = [table("All recordings", usable)]
    agents = sorted({entry.agent for entry in usable if entry.agent})
    if len(agents) > 1:
        result += [table(f"Agent {agent}", [entry for entry in usable if entry.agent == agent]) for agent in agents]
    for least, most in LENGTHS:
        title = f"{least} to {most} steps" if most < 10**9 else f"{least} or more steps"
        result.append(table(title, [entry for entry in usable if least <= entry.steps <= most]))
    models = dict.fromkeys(entry.model for entry in sorted(billed, key=lambda entry: entry.model))
    result += [
        table(model, [entry for entry in billed if entry.model == model])
        for model in tracked(tuple(models), "tables of models")
    ]
    return tuple(each for each in result if each.runs)


def in_one_sum(entry: RecordingEntry) -> RecordingEntry:
    """Return the entry without its model: who talks to an agent pays for the sum of its models, not for their mean."""
    return replace(entry, model=ANY_MODEL)


def table(title: str, entries: Sequence[RecordingEntry]) -> EvidenceTable:
    """Return one table, excluding models with too few runs if another model has enough."""
    counted = Counter(entry.model for entry in entries)
    entries = [entry for entry in entries if counted[entry.model] >= min(MIN_RUNS, max(counted.values()))]
    names = list(dict.fromkeys(name for entry in entries for name in entry.bills))
    lines = {name: _line(name, entries) for name in names}
    for name, line in lines.items():
        if name.endswith(" middle"):
            cases = [lines[f"{name.removesuffix('middle')}{case}"].bills for case in CASES]
            lines[name] = replace(line, turns=tuple(_turning_share(*each) for each in zip(*cases, strict=True)))
    return EvidenceTable(
        title,
        len(entries),
        len({entry.task for entry in entries}),
        tuple(_models(entries)),
        tuple(lines.values()),
    )


def _turning_share(best: Interval | None, middle: Interval | None, worst: Interval | None) -> float | None:
    """Return the share of lookups at which a bill reaches that of ``full``, by interpolation between the cases."""
    points = [(share, case.value) for share, case in zip(REREAD_SHARES, (best, middle, worst), strict=True) if case]
    for (left, low), (right, high) in pairwise(points):
        if low >= 1:
            return left
        if high >= 1:
            return left + (right - left) * (1 - low) / (high - low)
    return None


def _line(name: str, entries: Sequence[RecordingEntry]) -> EvidenceLine:
    own_entries = [entry for entry in entries if name in entry.bills]
    positions = range(len(READS))
    bills = [_by_task(own_entries, _bills(name, position)) for position in positions]
    return EvidenceLine(
        name,
        tuple(ratio_of_sums(*each) for each in bills),
        tuple(mean_of_ratios(*each) for each in bills),
        differing_tasks(*bills[0]),
        tuple(over_tasks(own_entries, _dearer(name, position), share=True) for position in positions),
        over_tasks(own_entries, lambda entry: (entry.bills[name].lost, entry.bills[name].facts), share=True),
        sum(entry.bills[name].frames for entry in own_entries) / len(own_entries),
        sum(entry.bills[name].rereads for entry in own_entries) / len(own_entries),
        sums=tuple(
            _sums(name, [entry for entry in own_entries if entry.model == model]) for model in _models(own_entries)
        ),
    )


def _models(entries: Sequence[RecordingEntry]) -> list[str]:
    return sorted({entry.model for entry in entries})


def _sums(name: str, entries: Sequence[RecordingEntry]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the sums of the bills of a strategy and of ``full``, from which a page computes other prices."""
    pair = ([entry.bills[strategy].usd for entry in entries] for strategy in (name, "full"))
    own, full = (tuple(round(sum(bills), 6) for bills in zip(*usd, strict=True)) for usd in pair)
    return own, full


def _bills(name: str, position: int) -> Sums:
    return lambda entry: (entry.bills[name].usd[position], entry.bills["full"].usd[position])


def _dearer(name: str, position: int) -> Sums:
    return lambda entry: (
        float(entry.bills[name].usd[position] > OVERRUN_RATIO * entry.bills["full"].usd[position]),
        1.0,
    )


def over_tasks(entries: Sequence[RecordingEntry], sums: Sums, *, share: bool = False) -> Interval | None:
    """Return the ratio of sums per model, averaged over the models; None if every denominator is 0."""
    numerators, denominators = _by_task(entries, sums)
    return share_of_sums(numerators, denominators) if share else ratio_of_sums(numerators, denominators)


def _by_task(entries: Sequence[RecordingEntry], sums: Sums) -> tuple[Any, Any]:
    """Return the sums of each task, with a column per model whose denominator is not 0."""
    np = arrays()
    tasks = {task: row for row, task in enumerate(sorted({entry.task for entry in entries}))}
    models = {model: column for column, model in enumerate(sorted({entry.model for entry in entries}))}
    numerators, denominators = np.zeros((len(tasks), len(models))), np.zeros((len(tasks), len(models)))
    for entry in entries:
        numerator, denominator = sums(entry)
        numerators[tasks[entry.task], models[entry.model]] += numerator
        denominators[tasks[entry.task], models[entry.model]] += denominator
    nonzero = denominators.sum(axis=0) > 0
    return numerators[:, nonzero], denominators[:, nonzero]


def ratio_of_sums(tops: Any, bottoms: Any) -> Interval | None:
    """Return the sum of a strategy's bills over that of the other: rows are tasks, and columns models.

    Without an interval if there are too few tasks, or too few that differ. An end is 0 or infinite if the tasks do not
    bound it.
    """
    enough = len(tops) >= MIN_TASKS_OF_SUM and differing_tasks(tops, bottoms) >= MIN_DIFFERING_OF_SUM
    return _mean_ratio(tops, bottoms, enough=enough, transformed=True)


def mean_of_ratios(tops: Any, bottoms: Any) -> Interval | None:
    """Return the mean of the tasks' own ratios of two bills, for each model; then the mean of the models."""
    np = arrays()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(bottoms > 0, tops / bottoms, 0.0)
    enough = len(tops) >= MIN_TASKS_ALIKE and differing_tasks(tops, bottoms) >= MIN_DIFFERING_ALIKE
    return _mean_ratio(ratios, (bottoms > 0) * 1.0, enough=enough, transformed=False)


def share_of_sums(tops: Any, bottoms: Any) -> Interval | None:
    """Return a share, which is the ratio of a part to its whole."""
    if not tops.size:
        return None
    value = float(_estimates(arrays().ones((1, len(tops))), tops, bottoms)[0][0])
    low, high = _share_ends(tops, bottoms) if len(tops) >= MIN_TASKS else (None, None)
    return Interval(value, low, high, len(tops))


def differing_tasks(tops: Any, bottoms: Any) -> int:
    """Return in how many tasks two bills differ."""
    np = arrays()
    return int((np.abs(tops - bottoms) > _NOTICEABLE * bottoms).any(axis=1).sum())


def _mean_ratio(tops: Any, bottoms: Any, *, enough: bool, transformed: bool) -> Interval | None:
    if not tops.size:
        return None
    if enough:
        return Interval(*_ends(tops, bottoms, transformed=transformed), len(tops))
    return Interval(float(_estimates(arrays().ones((1, len(tops))), tops, bottoms)[0][0]), None, None, len(tops))


def _estimates(weights: Any, numerators: Any, denominators: Any) -> tuple[Any, Any, Any]:
    """Return the mean ratio of the models for each row of weights, its standard error, and the skew of the tasks.

    Error and skew are those of how much each task moves the mean ratio. A model without any task in a row is ignored
    there.
    """
    np = arrays()
    tops, bottoms, count = weights @ numerators, weights @ denominators, numerators.shape[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(bottoms > 0, tops / bottoms, 0.0)
        scale = np.where(bottoms > 0, 1 / bottoms, 0.0) / (bottoms > 0).sum(axis=1, keepdims=True)
    moved = scale @ numerators.T - (scale * ratios) @ denominators.T
    second, third = (weights * moved**2).sum(axis=1), (weights * moved**3).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        skews = np.where(second > 0, third / count / (second / count) ** 1.5, 0.0)
    errors = np.sqrt(second * count / max(1, count - 1))
    return ratios.sum(axis=1) / (bottoms > 0).sum(axis=1), errors, skews


def _ends(numerators: Any, denominators: Any, *, transformed: bool) -> tuple[float, float, float]:
    """Return the mean ratio and its interval: at each end the widest of t, studentized bootstrap, and Hall's.

    The first two work on the logarithm. Hall's transformation also follows how the skew changes between samples.
    """
    np, count = arrays(), len(numerators)
    (value,), (error,), (skew,) = (
        figure.tolist() for figure in _estimates(np.ones((1, count)), numerators, denominators)
    )
    if value <= 0 or error <= 1e-12 * value:
        return value, value, value
    ratios, errors, skews = _estimates(_draws(count), numerators, denominators)
    usable = (ratios > 0) & (errors > 1e-12 * ratios)
    ratios, errors, skews = ratios[usable], errors[usable], skews[usable]
    levels = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    least, most = np.quantile(np.log(ratios / value) * ratios / errors, levels)
    reach = t_quantile(CONFIDENCE, count - 1)
    ends = np.array((-max(reach, float(most)), max(reach, -float(least)))) * error / value
    with np.errstate(over="ignore"):
        low, high = (float(end) for end in value * np.exp(ends))
    if not transformed:
        return value, low, high
    distances = np.quantile(halls_transformation((ratios - value) / errors, skews, count), levels)
    highest, lowest = (value - halls_distance(float(end), skew, count) * error for end in distances)
    return value, max(0.0, min(low, lowest)), max(high, highest)


def _share_ends(numerators: Any, denominators: Any) -> tuple[float, float]:
    """Return the t interval of a share with one more task at 0 and one at 1, so that it is wide if all are equal."""
    np = arrays()
    usual = denominators.mean(axis=0)[None]
    numerators, denominators = (
        np.vstack((numerators, np.zeros_like(usual), usual)),
        np.vstack((denominators, usual, usual)),
    )
    values, errors, _ = _estimates(np.ones((1, len(numerators))), numerators, denominators)
    reach = t_quantile(CONFIDENCE, len(numerators) - 1) * float(errors[0])
    return max(0.0, float(values[0]) - reach), min(1.0, float(values[0]) + reach)


@lru_cache(maxsize=2)
def _draws(tasks: int) -> Any:
    """Return how often each task is in each draw. Every figure with the same number of tasks uses the same draws."""
    np = arrays()
    dice = np.random.default_rng(SEED)
    return dice.multinomial(tasks, np.full(tasks, 1 / tasks), _BOOTSTRAP_SAMPLES).astype(float)
