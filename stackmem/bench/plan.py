"""What a bench is: every trial of it, known before the first one starts.

Rule 1: a trial is named by what defines it, so that a bench that was killed knows which of them it has.
Rule 2: trial i of a world is the task with seed i; trial i of a fixed task gives seed i to the model.
Rule 3: a plan may grow (more trials, more strategies, more models); nothing that is in it changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from stackmem.version import VERSION

Keep = Literal["all", "failed", "none"]


class TrialSubject(Struct, frozen=True):
    """What is solved: a fixed task, or a family of generated ones at one horizon.

    Attributes:
        task: The task's name, or the family's.
        family: Empty for a fixed task.
        path: Folder of a fixed task; empty for a world.
        digest: Of a fixed task's files; a bench goes on only with the same ones.
        horizon: Steps of necessary work; None for a fixed task.
        noise: 1 is about 1,500 characters an output; None for a fixed task.
    """

    task: str
    family: str = ""
    path: str = ""
    digest: str = ""
    horizon: int | None = None
    noise: float | None = None

    @property
    def shown(self) -> str:
        if not self.family:
            return self.task
        return f"{self.task}-h{self.horizon}" + (f"-n{self.noise:g}" if self.noise != 1 else "")


class Variant(Struct, frozen=True):
    """A strategy, perhaps under other settings.

    Attributes:
        name: As tables show it; without settings of its own the strategy as spelled.
        settings: Options that hold for this variant alone.
    """

    name: str
    strategy: str
    settings: dict[str, Any] = field(default_factory=dict)


class Trial(Struct, frozen=True):
    """One run to be made.

    Attributes:
        id: Names it in the ledger and in the runs' folder.
        settings: Every option that was given, by name.
    """

    id: str
    subject: TrialSubject
    seed: int
    model: str
    variant: Variant
    settings: dict[str, Any]


class BenchPlan(Struct, frozen=True):
    """The matrix, and how each trial is measured.

    Attributes:
        suite, about: Name of the suite it was made from, and what it says of itself; empty without one.
        trials: How many of each cell; their seeds are 1 to this.
        settings: Options of every trial; a variant's own go over them.
        price: The model of the price table that the bill is made by.
        latency_seconds: Between two requests, by the bill's clock.
        command: How it was asked for.
        version: The stackmem that began it; no other one goes on with it.
    """

    subjects: tuple[TrialSubject, ...]
    models: tuple[str, ...]
    variants: tuple[Variant, ...]
    trials: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    price: str = "claude-sonnet-5-5"
    latency_seconds: float = 10.0
    keep_traces: Keep = "all"
    suite: str = ""
    about: str = ""
    command: str = ""
    version: str = VERSION

    @property
    def count(self) -> int:
        return len(self.subjects) * len(self.models) * len(self.variants) * self.trials


def trials(plan: BenchPlan) -> Iterator[Trial]:
    """Every trial, those that are compared with each other next to each other: an early end leaves whole rows."""
    for seed in range(1, plan.trials + 1):
        for subject in plan.subjects:
            for model in plan.models:
                for variant in plan.variants:
                    settings = {**plan.settings, **variant.settings}
                    name = _named(subject, seed, model, variant, settings)
                    yield Trial(name, subject, seed, model, variant, settings)


def _named(subject: TrialSubject, seed: int, model: str, variant: Variant, settings: dict[str, Any]) -> str:
    """Readable first; what makes it unique at its end. Where the task lies is no part of it, what it holds is."""
    whole = (msgspec.structs.replace(subject, path=""), seed, model, variant.strategy, settings, variant.name)
    digest = hashlib.sha256(msgspec.json.encode(whole, order="deterministic")).hexdigest()[:12]
    words = (subject.shown, f"s{seed}", model, variant.name)
    return "_".join(re.sub(r"[^A-Za-z0-9.=-]+", "-", word).strip("-.")[:40] or "x" for word in words) + f"_{digest}"
