"""Compute the figures of the report: for each set of tasks, one line per strategy.

A trial with the outcome ``error`` did not fail because of its strategy. It is counted, but excluded from all figures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import isfinite, isnan, nan
from statistics import fmean

from msgspec import Struct

from stackmem.core.pricing import Price
from stackmem.lab.bench import intervals
from stackmem.lab.bench.intervals import Interval, Pair
from stackmem.lab.bench.statistics import ALPHA, Comparison, Direction, compare
from stackmem.review.measure.metrics import METRICS, SHIPPED
from stackmem.trace.long_work import tracked

from .results import BenchRows, TrialRow
from .run_columns import RUN_COLUMNS

READ_MULTIPLES = (0.1, 0.05, 0.025)
_ALSO_MEANS = (
    "model_calls", "peak_context_tokens", "mean_context_tokens", "output_tokens", "bill_usd", "model_seconds",
    "tools_seconds", "harness_seconds",
)  # fmt: skip
"""Figures that the report shows as means elsewhere, or only in the spreadsheet."""


def means() -> tuple[str, ...]:
    """Return the figures shown as means, including metrics of plug-ins."""
    own = (column.key for column in RUN_COLUMNS if column.key != "never_acted")
    return (*own, *_ALSO_MEANS, *(name for name in METRICS if name not in SHIPPED))


Value = Callable[[TrialRow], float]
UnitOf = Callable[[TrialRow], Hashable]


class Line(Struct, frozen=True):
    """One strategy on one set of tasks."""

    strategy: str
    trials: int  # trials without an error
    errors: int  # trials with an error, which are excluded
    figures: Mapping[str, Interval | None]  # name to figure; None if it was not measured
    # Comparisons of ``solved``, ``bill``, ``peak`` and the bills at other read prices with the baseline, if possible.
    # ``solved_here`` compares the success of pairs of trials and says nothing about other worlds.
    against: Mapping[str, Comparison]
    k: int  # the k of ``pass_at_k`` and ``pass_hat_k``: trials per task


class Section(Struct, frozen=True):
    """A set of tasks that every strategy ran."""

    title: str
    model: str
    noise: str
    task: str  # empty if it covers all tasks
    horizon: float  # nan if it covers all horizons, or if the tasks have none
    lines: tuple[Line, ...]


class Wants(Struct, frozen=True):
    """The settings of a report."""

    price: Price
    price_of: str
    baseline: str = "full"
    # price of a cached token read, relative to an input token; None means the model's own
    asked_multiple: float | None = None
    alpha: float = ALPHA  # the chance of any false difference; less if the bench can stop early

    @property
    def read_multiple(self) -> float:
        """The read price that the verdicts use."""
        own = self.price.cache_read / self.price.input if self.price.input else 0.0
        return round(own, 6) if self.asked_multiple is None else self.asked_multiple

    @property
    def multiples(self) -> tuple[float, ...]:
        return tuple(sorted({self.read_multiple, *READ_MULTIPLES}, reverse=True))


def bill(trial: TrialRow, price: Price, multiple: float) -> float:
    """Return the USD of a trial if a read costs ``multiple`` input tokens; nan if it has no bill in dollars."""
    if isnan(trial.number("bill_usd")):
        return nan
    kinds = ("uncached", "read", "write_5m", "write_1h", "output")
    return bill_of([trial.number(f"bill_{name}") for name in kinds], price, multiple)


def bill_of(tokens: Sequence[float], price: Price, multiple: float) -> float:
    """Return the USD of tokens: uncached, read, written for five minutes, written for an hour, and output."""
    uncached, read, written_5m, written_1h, output = tokens
    prompt = uncached * price.input + read * price.input * multiple
    written = written_5m * price.cache_write_5m + written_1h * price.cache_write_1h
    return (prompt + written + output * price.output) / 1_000_000


def sections(results: BenchRows, wants: Wants) -> list[Section]:
    """Return the sections per model and noise: all tasks, then each horizon, then each task at each horizon."""
    result = []
    for group in dict.fromkeys(trial.group for trial in results.trials):
        group_trials = [trial for trial in results.trials if trial.group == group]
        horizons = sorted({trial.horizon for trial in group_trials if isfinite(trial.horizon)})
        tasks = list(dict.fromkeys(trial.task for trial in group_trials))
        result.append(
            _section(group_trials, "", nan, "All tasks" + (" and horizons" if len(horizons) > 1 else ""), wants)
        )
        if len(horizons) > 1:
            for horizon in horizons:
                subset = [trial for trial in group_trials if trial.horizon == horizon]
                result.append(_section(subset, "", horizon, f"Horizon {horizon:g}", wants))
        if len(tasks) == 1 and len(horizons) <= 1:
            continue
        for task in tracked(tasks, "tables of tasks"):
            for horizon in sorted({trial.horizon for trial in group_trials if trial.task == task}, key=_nan_first):
                subset = [trial for trial in group_trials if trial.task == task and _equal(trial.horizon, horizon)]
                title = f"{task}, horizon {horizon:g}" if isfinite(horizon) and len(horizons) > 1 else task
                result.append(_section(subset, task, horizon, title, wants))
    return result


def _section(trials: Sequence[TrialRow], task: str, horizon: float, title: str, wants: Wants) -> Section:
    model, noise = trials[0].group
    by_strategy: dict[str, list[TrialRow]] = {}
    for trial in trials:
        by_strategy.setdefault(trial.strategy, []).append(trial)
    comparisons, unit = _against(by_strategy, wants), _unit_of(trials)
    lines = [
        _line(
            name,
            strategy_trials,
            {figure: comparisons[figure][name] for figure in comparisons if name in comparisons[figure]},
            wants,
            unit,
        )
        for name, strategy_trials in by_strategy.items()
    ]
    return Section(title, model, noise, task, horizon, tuple(sorted(lines, key=_best_first)))


def _against(by_strategy: Mapping[str, Sequence[TrialRow]], wants: Wants) -> dict[str, dict[str, Comparison]]:
    """Compare every strategy with the baseline, for each figure with a verdict."""
    judged: dict[str, tuple[Callable[[TrialRow], float], Direction]] = {
        "solved": (lambda trial: trial.solved, "more"),
        "bill": (partial(bill, price=wants.price, multiple=wants.read_multiple), "less"),
        "peak": (lambda trial: trial.number("peak_context_tokens"), "less"),
    }
    for multiple in wants.multiples:
        judged[bill_name(multiple)] = (partial(bill, price=wants.price, multiple=multiple), "less")
    base = {trial.pairing: trial for trial in by_strategy.get(wants.baseline, ()) if not trial.failed}
    unit = _unit_of([trial for strategy_trials in by_strategy.values() for trial in strategy_trials])
    others = {name: trials for name, trials in by_strategy.items() if name != wants.baseline}

    def pairs(value: Value, unit: UnitOf) -> dict[str, list[Pair]]:
        return {name: _pairs(trials, base, value, unit) for name, trials in others.items()}

    compared = {
        figure: compare(pairs(value, unit), direction, yes_no=figure == "solved", alpha=wants.alpha)
        for figure, (value, direction) in judged.items()
    }
    if len({trial.task for trials in by_strategy.values() for trial in trials}) > 1:  # otherwise the same as ``solved``
        here = pairs(lambda trial: trial.solved, lambda trial: trial.pairing)
        compared["solved_here"] = compare(here, "more", yes_no=True, least=0.0, alpha=wants.alpha)
    return compared


def _unit_of(trials: Sequence[TrialRow]) -> UnitOf:
    """Return the independent unit of a trial: its world, or the trial itself if all trials are of one world."""
    return (lambda trial: trial.task) if len({trial.task for trial in trials}) > 1 else (lambda trial: trial.pairing)


def _pairs(
    trials: Sequence[TrialRow], base: Mapping[tuple[str, ...], TrialRow], value: Value, unit: UnitOf
) -> list[Pair]:
    """Return for each unit the means of the strategy and the baseline, over the trials that both have."""
    by_unit: dict[Hashable, list[Pair]] = {}
    for trial in trials:
        other = base.get(trial.pairing)
        if other is not None and not trial.failed and isfinite(value(trial)) and isfinite(value(other)):
            by_unit.setdefault(unit(trial), []).append((value(trial), value(other)))
    return [(fmean(own for own, _ in pairs), fmean(other for _, other in pairs)) for pairs in by_unit.values()]


def _line(name: str, trials: Sequence[TrialRow], against: Mapping[str, Comparison], wants: Wants, unit: UnitOf) -> Line:
    counted = [trial for trial in trials if not trial.failed]
    judged = [trial for trial in counted if isfinite(trial.solved)]
    figures = {
        column: intervals.mean(_means(counted, partial(TrialRow.number, column=column), unit)) for column in means()
    }
    figures["solved"] = intervals.share(_means(judged, lambda trial: trial.solved, unit))
    for multiple in wants.multiples:
        bills = _means(counted, partial(bill, price=wants.price, multiple=multiple), unit)
        figures[bill_name(multiple)] = intervals.mean(bills)
    paid = [trial for trial in judged if isfinite(bill(trial, wants.price, wants.read_multiple))]
    costs = _means(paid, lambda trial: bill(trial, wants.price, wants.read_multiple), unit)
    solved = _means(paid, lambda trial: trial.solved, unit)
    figures["cost_per_solved"] = intervals.cost_per_solved(list(zip(costs, solved, strict=True)))
    tasks: dict[str, dict[str, list[bool]]] = {}
    for trial in judged:
        tasks.setdefault(trial.task, {}).setdefault(trial.text("horizon"), []).append(trial.solved == 1)
    idle = _means(
        counted, lambda trial: float(trial.number("acted") == 0) if isfinite(trial.number("acted")) else nan, unit
    )
    figures["never_acted"] = intervals.share(idle)
    k = min((len(solved_runs) for by_horizon in tasks.values() for solved_runs in by_horizon.values()), default=0)
    of_worlds = {task: list(by_horizon.values()) for task, by_horizon in tasks.items()}
    figures["pass_at_k"] = intervals.pass_at_k(of_worlds, k)
    figures["pass_hat_k"] = intervals.pass_hat_k(of_worlds, k)
    return Line(name, len(counted), len(trials) - len(counted), figures, against, k)


def _means(trials: Sequence[TrialRow], value: Value, unit: UnitOf) -> list[float]:
    """Return the mean of each unit, over its trials that have the figure."""
    by_unit: dict[Hashable, list[float]] = {}
    for trial in trials:
        if isfinite(figure := value(trial)):
            by_unit.setdefault(unit(trial), []).append(figure)
    return [fmean(figure) for figure in by_unit.values()]


def bill_name(multiple: float) -> str:
    return f"bill_{multiple:g}"


def _best_first(line: Line) -> tuple[float, float, str]:
    solved, cost = line.figures["solved"], line.figures[bill_name(READ_MULTIPLES[0])]
    return (-solved.value if solved else 1.0, cost.value if cost else float("inf"), line.strategy)


def _equal(first: float, second: float) -> bool:
    return first == second or (not isfinite(first) and not isfinite(second))


def _nan_first(value: float) -> float:
    return value if isfinite(value) else -1.0
