"""Looks at a bench before its end, so that it stops as soon as every strategy has a verdict.

Rule 1: the seeds are split into equal parts, and a look follows each part. A part starts only if the last look left a
strategy without a verdict. Rule 2: the looks share the 5 % as O'Brien and Fleming spend it (Lan and DeMets 1983):
little at first, most at the end. Each look judges at what it spends (Bonferroni), so the chance of any false difference
at any look stays below 5 %, however the looks depend on each other. Rule 3: a look is a function of the plan and the
rows, so a bench that was killed decides the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, isfinite, nan, sqrt
from statistics import fmean
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError

from .intervals import SEED, Pair, arrays, library
from .plan import BenchPlan, Trial, trials
from .statistics import ALPHA, NONE_SHOWN, TOO_FEW, Comparison, Direction, compare
from .trial import Row

BASELINES = ("full", "stackheap")
MAX_LOOKS = 20
GAPS = (0.0, 0.2)
"""Differences in success for which ``expected_trials`` announces the number of trials."""

_SIMULATIONS = 2_000


class DecidingFigure(Struct, frozen=True):
    """A figure that can end a bench."""

    column: str  # of a row
    direction: Direction
    # Success is judged on these trials: a unit is a pair of trials. Amounts are judged about worlds, as in the report.
    yes_no: bool = False


FIGURES = {
    "solved": DecidingFigure("solved", "more", yes_no=True),
    "bill": DecidingFigure("bill_usd", "less"),
    "peak": DecidingFigure("peak_context_tokens", "less"),
}


def refuse_looks(plan: BenchPlan) -> None:
    """Raise unless the plan's looks can be made."""
    if plan.looks == 1 and not plan.decide_on:
        return
    if not 2 <= plan.looks <= MAX_LOOKS:
        raise UsageError(f"{plan.looks} looks are not possible; give --looks from 2 to {MAX_LOOKS} with --decide-on")
    if plan.decide_on not in FIGURES:
        problem = f"unknown --decide-on {plan.decide_on[:40]!a}" if plan.decide_on else "--looks needs --decide-on"
        raise UsageError(f"{problem}; use one of {', '.join(FIGURES)}")
    if plan.trials < plan.looks:
        raise UsageError(f"{plan.looks} looks need at least {plan.looks} seeds; give --trials {plan.looks} or more")
    if plan.decide_on == "bill" and not plan.price:
        raise UsageError("these models have no price, so --decide-on bill cannot decide; use solved or peak")
    if baseline(plan) is None or len(plan.variants) < 2:
        raise UsageError(f"looks compare strategies with {' or '.join(BASELINES)}; add one of these to --strategies")


def baseline(plan: BenchPlan) -> str | None:
    """Return the strategy that the others are compared with."""
    names = {variant.name for variant in plan.variants}
    return next((name for name in BASELINES if name in names), None)


def seeds_at(plan: BenchPlan) -> tuple[int, ...]:
    """Return the number of seeds that each look covers; the last one covers all."""
    return tuple(ceil(plan.trials * look / plan.looks) for look in range(1, plan.looks + 1))


def levels(looks: int) -> tuple[float, ...]:
    """Return what each look spends of the 5 %. Together they spend all of it."""
    normal = library().norm
    end = normal.isf(ALPHA / 2)
    cumulative = [2 * float(normal.sf(end / sqrt(look / looks))) for look in range(1, looks + 1)]
    return tuple(after - before for before, after in pairwise((0.0, *cumulative)))


def last_level(plan: BenchPlan) -> float:
    """Return the level of the last look."""
    return levels(plan.looks)[-1]


def current_level(plan: BenchPlan, finished: Container[str]) -> float:
    """Return the level of the look that the bench has reached.

    ``finished`` are the ids of the trials with rows. While a part is running, the level is that of the look after it.
    """
    missing = min((trial.seed for trial in trials(plan) if trial.id not in finished), default=plan.trials + 1)
    complete = sum(seeds < missing for seeds in seeds_at(plan))
    started = any(
        trial.id in finished for trial in trials(plan) if complete and trial.seed > seeds_at(plan)[complete - 1]
    )
    return levels(plan.looks)[complete if started or not complete else complete - 1]


def decided(plan: BenchPlan, rows: Mapping[str, Row], seeds: int) -> bool:
    """Return whether the trials with the first ``seeds`` seeds give every strategy a verdict, under every model."""
    return all(
        comparisons and all(comparison.verdict not in (TOO_FEW, NONE_SHOWN) for comparison in comparisons.values())
        for comparisons in verdicts(plan, rows, seeds)
    )


def verdicts(plan: BenchPlan, rows: Mapping[str, Row], seeds: int) -> Iterator[dict[str, Comparison]]:
    """Yield the comparisons of each model and noise, over the trials with the first ``seeds`` seeds."""
    figure, level = FIGURES[plan.decide_on], levels(plan.looks)[seeds_at(plan).index(seeds)]
    groups: dict[tuple[str, float | None], list[Trial]] = {}
    for trial in trials(plan):
        if trial.seed <= seeds:
            groups.setdefault((trial.model, trial.subject.noise), []).append(trial)
    for group in groups.values():
        pairs = _pairs(plan, group, rows, figure)
        least = 0.0 if figure.yes_no else None
        yield compare(pairs, figure.direction, yes_no=figure.yes_no, least=least, alpha=level)


def _pairs(
    plan: BenchPlan, group: Sequence[Trial], rows: Mapping[str, Row], figure: DecidingFigure
) -> dict[str, list[Pair]]:
    """Return for each strategy the pairs of each unit: its figure and that of the baseline."""
    values: dict[str, dict[tuple[Any, ...], float]] = {}
    for trial in group:
        row = rows.get(trial.id, {})
        value = row.get(figure.column) if row.get("outcome") != "error" else None
        key = (trial.subject.task, trial.subject.horizon, trial.seed)
        values.setdefault(trial.variant.name, {})[key] = nan if value is None else float(value)
    base = values[baseline(plan) or ""]
    by_task = not figure.yes_no and len({trial.subject.task for trial in group}) > 1
    pairs_by_name: dict[str, list[Pair]] = {}
    for name, own in values.items():
        units: dict[tuple[Any, ...], list[Pair]] = {}
        for key, value in own.items():
            if isfinite(value) and isfinite(base[key]):
                units.setdefault(key[:1] if by_task else key, []).append((value, base[key]))
        if own is not base:
            pairs_by_name[name] = [(fmean(first for first, _ in unit), fmean(second for _, second in unit))
                           for unit in units.values()]  # fmt: skip
    return pairs_by_name


def expected_trials(plan: BenchPlan, rate: float) -> dict[float, float]:
    """Return the expected number of trials of a bench that decides on success, for each gap in ``GAPS``.

    Every strategy differs from the baseline by the gap, towards the side with more room. Outcomes are independent, so
    pairs that agree more often, as they do on easy and hard tasks, stop a bench later or earlier.
    """
    np, dice = arrays(), arrays().random.default_rng(SEED)
    cells, others, at = len(plan.subjects), len(plan.variants) - 1, seeds_at(plan)
    expected = {}
    for gap in GAPS:
        other = min(1.0, max(0.0, rate - gap if rate >= 0.5 else rate + gap))
        lost, gains = rate * (1 - other), other * (1 - rate)
        used = np.full(_SIMULATIONS, at[-1])
        running = np.ones(_SIMULATIONS, dtype=bool)
        counts = np.zeros((_SIMULATIONS, others, 2), dtype=int)
        for look, seeds in enumerate(at):
            new = cells * (seeds - (at[look - 1] if look else 0))
            counts += dice.multinomial(new, (lost, gains, 1 - lost - gains), (_SIMULATIONS, others))[..., :2]
            rarer, differing = counts.min(axis=-1), counts.sum(axis=-1)
            p = np.sort(np.minimum(1.0, 2 * library().binom.cdf(rarer, differing, 0.5)), axis=1)
            stops = running & np.all(p * np.arange(others, 0, -1) <= levels(plan.looks)[look], axis=1)
            used[stops], running = seeds, running & ~stops
        expected[gap] = float(used.mean()) * cells * len(plan.models) * len(plan.variants)
    return expected
