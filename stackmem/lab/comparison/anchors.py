"""Anchors and colors of the report page: every number links to the trials it was computed from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import isfinite
from typing import Literal, TypeVar

from stackmem.review.report.colors import hue_of

from .figures import Section
from .results import BenchRows, TrialRow

Family = Literal["linear", "masking", "summary", "lookup", "frames", "stackheap", "other"]

FAMILIES: dict[Family, tuple[str, frozenset[str]]] = {
    "linear": ("keeps it as it was, whole or the last of it", frozenset({"full", "window", "truncate"})),
    "masking": (
        "takes old results out",
        frozenset({"mask", "clear", "clear_cold", "clear_paying", "context_editing", "boundary", "episodes"}),
    ),
    "summary": (
        "sums it up",
        frozenset(
            {
                "agentfold",
                "compact",
                "compact_provider",
                "condenser",
                "handoff",
                "hierarchical",
                "mem1",
                "rolling_summary",
                "self_compact",
                "structured_summary",
                "summary",
            }
        ),
    ),
    "lookup": (
        "writes it down or looks it up",
        frozenset({"rag", "rlm", "notes", "memory_dir", "memory_files", "letta", "expandable", "dashboard"}),
    ),
    "frames": ("ends frames, no heap", frozenset({"isolated", "fold", "stack"})),
    "stackheap": (
        "heap, and frames",
        frozenset({"adaptive", "heap", "stackheap", "stackheap_fork", "stackheap_lossless"}),
    ),
    "other": ("other", frozenset()),
}
"""Name to a description of its strategies and their names. Each family has its own mark in the plots."""
Name = TypeVar("Name", bound=Hashable)


def family_of(strategy: str) -> Family:
    """Return the family of a strategy by its name without parameters."""
    base = strategy.partition(":")[0]
    return next((family for family, (_, names) in FAMILIES.items() if base in names), "other")


def leads(strategy: str, baseline: str) -> bool:
    """Return whether the line of a strategy is drawn on top: the baseline and ``stackheap``."""
    return strategy in {baseline, "stackheap"}


class Anchors:
    """Anchors by strategy, horizon and task. They contain numbers only, because names can be hostile."""

    def __init__(self, results: BenchRows) -> None:
        self._groups = _numbers(trial.group for trial in results.trials)
        self._tasks = _numbers(trial.task for trial in results.trials)
        self._strategies = _numbers(trial.strategy for trial in results.trials)
        self._spelled = {trial.strategy: trial.text("spelled") or trial.strategy for trial in results.trials}
        horizons = {(trial.group, trial.horizon) for trial in results.trials if isfinite(trial.horizon)}
        self._many = {
            group: sum(1 for horizon_group, _ in horizons if horizon_group == group) > 1 for group in self._groups
        }

    def strategy(self, name: str) -> int:
        return self._strategies[name]

    def hue(self, name: str) -> int:
        """Return the color of a strategy, which is the same on every page."""
        return hue_of(name)

    def family(self, name: str) -> Family:
        """Return the family of a strategy. A variant belongs to the family of the strategy that it is based on."""
        return family_of(self._spelled[name])

    def of_line(self, section: Section, strategy: str) -> str:
        """Return the anchor of the first trial of a line."""
        group = (section.model, section.noise)
        anchor = self.of_strategy(group, strategy)
        if section.task:
            return f"{anchor}{_horizon(section.horizon)}-w{self._tasks[section.task]}"
        return f"{anchor}{_horizon(section.horizon)}" if self._many[group] else anchor

    def of_strategy(self, group: tuple[str, str], strategy: str) -> str:
        return f"t{self._groups[group]}-{self._strategies[strategy]}"

    def of_trial(self, trial: TrialRow) -> tuple[str, str]:
        """Return the anchors that a trial belongs to: its horizon, and its task at that horizon."""
        anchor = f"{self.of_strategy(trial.group, trial.strategy)}{_horizon(trial.horizon)}"
        return (anchor, f"{anchor}-w{self._tasks[trial.task]}")


def _horizon(horizon: float) -> str:
    return f"-h{horizon:g}" if isfinite(horizon) else ""


def _numbers(items: Iterable[Name]) -> dict[Name, int]:
    return {item: number for number, item in enumerate(dict.fromkeys(items))}
