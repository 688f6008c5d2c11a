"""Estimate what trials will cost and which differences a plan can detect.

The estimates use the rows available so far, otherwise an assumption that the command prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from msgspec import Struct

from stackmem.core.pricing import Price

from .plan import BenchPlan, Trial
from .trial import Row

HEAD_TOKENS, STEP_TOKENS, REPLY_TOKENS, FIXED_TASK_STEPS = 6_000, 1_500, 300, 30

POINTS = 5
"""The difference in success, in points, for which a plan announces the number of paired trials."""

ASSUMPTION = (
    f"assumed until trials have finished: {HEAD_TOKENS:,} prompt tokens before the first step, {STEP_TOKENS:,} more "
    f"and a reply of {REPLY_TOKENS} at each step, all cached; as many steps as the horizon, or {FIXED_TASK_STEPS} for "
    "a task without one"
)


class CostEstimates(Struct):
    """The costs of finished trials, by model, strategy and task, then by less specific keys."""

    costs: dict[tuple[str, ...], list[float]]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> CostEstimates:
        estimates = cls({})
        for row in rows:
            estimates.add(row)
        return estimates

    def add(self, row: Row) -> None:
        cost = row.get("cost_usd")
        if isinstance(cost, int | float):
            for key in _keys(row["model"], row["strategy"], f"{row['task']} {row['horizon']}"):
                self.costs.setdefault(key, []).append(float(cost))

    def expected(self, trial: Trial) -> float | None:
        """Return the mean cost of the most similar trials, or None if no trial of this model has finished."""
        subject = trial.subject
        for key in _keys(trial.model, trial.variant.name, f"{subject.task} {subject.horizon}"):
            if key in self.costs:
                return fmean(self.costs[key])
        return None


def _keys(model: str, strategy: str, task: str) -> tuple[tuple[str, ...], ...]:
    return (model, strategy, task), (model, strategy), (model,)


def expected_usd(trial: Trial, price: Price | None, estimates: CostEstimates) -> float:
    """Return the expected cost of a trial; 0 if its model is free."""
    if price is None:
        return 0.0
    seen = estimates.expected(trial)
    guess = assumed_usd(trial, price) if seen is None else seen
    bound = trial.settings.get("max_usd", 5.0)
    return guess if bound == "none" else min(guess, float(bound))


def assumed_usd(trial: Trial, price: Price) -> float:
    """Return the cost under ``ASSUMPTION``."""
    steps = trial.subject.horizon or FIXED_TASK_STEPS
    written = HEAD_TOKENS + STEP_TOKENS * steps
    read = sum(HEAD_TOKENS + STEP_TOKENS * step for step in range(steps))
    dollars = written * price.cache_write_5m + read * price.cache_read + REPLY_TOKENS * steps * price.output
    return dollars / 1_000_000


def plan_usd(waiting: Iterable[Trial], prices: Mapping[str, Price | None], estimates: CostEstimates) -> float:
    """Return the expected cost of the remaining trials of a plan."""
    return sum(expected_usd(trial, prices.get(trial.model), estimates) for trial in waiting)


def detectable(plan: BenchPlan, rows: Iterable[Row]) -> tuple[int, float, float | None]:
    """Return the worlds under one model, the assumed success rate, and the smallest gap that they can show.

    The rate is that of the finished trials. Without any it is 0.5, which is the least favorable case for a plan. Power
    is 0.8 at a level of 5 %, corrected for the comparisons of all other strategies with the baseline. If there is only
    one world, its trials are counted instead of worlds.
    """
    from .looks import last_level
    from .statistics import smallest_difference

    solved = [row["solved"] for row in rows if row.get("solved") is not None]
    rate = fmean(solved) if solved else 0.5
    worlds = len({subject.task for subject in plan.subjects})
    units = worlds if worlds > 1 else len(plan.subjects) * plan.trials
    return units, rate, smallest_difference(units, rate, len(plan.variants) - 1, last_level(plan))


def paired_trials(plan: BenchPlan, rate: float) -> tuple[int, int | None]:
    """Return the paired trials of each strategy, and how many find a difference of ``POINTS`` on these tasks and seeds.

    This is about the trials that run, not about worlds in general. None means that too many would be needed.
    """
    from .looks import last_level
    from .statistics import pairs_to_find

    return len(plan.subjects) * plan.trials, pairs_to_find(POINTS / 100, rate, len(plan.variants) - 1, last_level(plan))
