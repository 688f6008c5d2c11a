"""Names of places in the page: every number leads to the trials it was made of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import isfinite
from typing import TypeVar

from .families import Family, family_of
from .figures import Section
from .results import Results, Trial

Name = TypeVar("Name", bound=Hashable)


class Anchors:
    """Places by strategy, horizon and task; hostile names are counted, never spelled."""

    def __init__(self, results: Results) -> None:
        self._groups = _numbers(trial.group for trial in results.trials)
        self._tasks = _numbers(trial.task for trial in results.trials)
        self._strategies = _numbers(trial.strategy for trial in results.trials)
        self._spelled = {trial.strategy: trial.text("spelled") or trial.strategy for trial in results.trials}
        horizons = {(trial.group, trial.horizon) for trial in results.trials if isfinite(trial.horizon)}
        self._many = {group: sum(1 for one, _ in horizons if one == group) > 1 for group in self._groups}

    def strategy(self, name: str) -> int:
        return self._strategies[name]

    def family(self, name: str) -> Family:
        """Of a strategy, or of a variant by what it is a variant of."""
        return family_of(self._spelled[name])

    def of_line(self, section: Section, strategy: str) -> str:
        """Where the trials of a line begin."""
        group = (section.model, section.noise)
        place = self.of_strategy(group, strategy)
        if section.task:
            return f"{place}{_horizon(section.horizon)}-w{self._tasks[section.task]}"
        return f"{place}{_horizon(section.horizon)}" if self._many[group] else place

    def of_strategy(self, group: tuple[str, str], strategy: str) -> str:
        return f"t{self._groups[group]}-{self._strategies[strategy]}"

    def of_trial(self, trial: Trial) -> tuple[str, str]:
        """The places that a trial belongs to: its horizon, its task at that horizon."""
        place = f"{self.of_strategy(trial.group, trial.strategy)}{_horizon(trial.horizon)}"
        return (place, f"{place}-w{self._tasks[trial.task]}")


def _horizon(horizon: float) -> str:
    return f"-h{horizon:g}" if isfinite(horizon) else ""


def _numbers(items: Iterable[Name]) -> dict[Name, int]:
    return {item: number for number, item in enumerate(dict.fromkeys(items))}
