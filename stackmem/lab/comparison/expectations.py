"""Check whether the families of worlds hurt the strategies that they were designed to hurt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import fmean, median

from stackmem.lab.bench.statistics import SHARE_OF_INTEREST
from stackmem.lab.worlds import WORLDS

from .figures import Wants, bill
from .results import TrialRow

RATIO_OF_HURT = 1.25
_FAMILIES = 4
"""A strategy has a usual price only if it ran on at least this many families."""


def expectation_text(wants: Wants) -> str:
    return (
        f"A family hurts a strategy if the strategy solves at least {SHARE_OF_INTEREST * 100:.0f} points less than "
        f"{wants.baseline}, or if its bill relative to {wants.baseline} is at least {RATIO_OF_HURT} times its own "
        "median over the families. The expectations come from the definitions of the families."
    )


def expectation_rows(trials: Sequence[TrialRow], wants: Wants) -> list[list[str]]:
    """Return the table with its header row, or an empty list.

    It is empty unless at least four families ran under one model together with the baseline.
    """
    rows = [["model", "family", "as expected", "expected, but not hurt", "hurt unexpectedly"]]
    for group in dict.fromkeys(trial.group for trial in trials):
        hurt = _hurt([trial for trial in trials if trial.group == group and not trial.failed], wants)
        strategies = {name for names in hurt.values() for name in names}
        for family, hits in hurt.items():
            expected = set(WORLDS[family].hurts)
            there = {name for name, hit in hits.items() if hit}
            ran = {name for name in hits if _base(name) in expected}
            rows.append([
                group[0], family, _name_list(ran & there), _name_list(ran - there),
                _name_list(there - ran) or ("none" if not there else ""),
            ])  # fmt: skip
            if strategies and there == strategies:
                rows[-1][-1] += " (all)"
    return rows if len(rows) > 1 else []


def _hurt(trials: Sequence[TrialRow], wants: Wants) -> dict[str, dict[str, bool]]:
    """Return for each family whether it hurts each strategy; empty with too few families."""
    families = [name for name in dict.fromkeys(trial.text("family") for trial in trials) if name in WORLDS]
    solved, ratios = dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for family in families:
        by_strategy: dict[str, list[TrialRow]] = {}
        for trial in trials:
            if trial.text("family") == family:
                by_strategy.setdefault(trial.strategy, []).append(trial)
        if wants.baseline not in by_strategy:
            continue
        base = _bill(by_strategy[wants.baseline], wants)
        solved[family] = {
            name: fmean(trial.solved for trial in strategy_trials) for name, strategy_trials in by_strategy.items()
        }
        ratios[family] = {name: _bill(strategy_trials, wants) / base for name, strategy_trials in by_strategy.items()}
    if len(solved) < _FAMILIES:
        return {}
    usual = _usual(ratios)
    return {
        family: {
            name: rate <= solved[family][wants.baseline] - SHARE_OF_INTEREST
            or ratios[family][name] >= RATIO_OF_HURT * usual[name]
            for name, rate in solved[family].items()
            if name != wants.baseline and isfinite(rate)
        }
        for family in solved
    }


def _usual(ratios: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    names = {name for by_strategy in ratios.values() for name in by_strategy}
    return {name: median(by_strategy[name] for by_strategy in ratios.values() if name in by_strategy) for name in names}


def _bill(trials: Sequence[TrialRow], wants: Wants) -> float:
    return fmean(bill(trial, wants.price, wants.read_multiple) for trial in trials)


def _base(strategy: str) -> str:
    return strategy.partition(":")[0]


def _name_list(names: set[str]) -> str:
    return ", ".join(sorted(names))
