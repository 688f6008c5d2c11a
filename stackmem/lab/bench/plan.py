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
SessionKind = Literal["frame", "flat", "new"]
"""How requests are worked on: each in a frame of one session, all in one conversation, or each in a new session."""


class TrialSubject(Struct, frozen=True):
    """What is solved: a fixed task, or a family of generated ones at one horizon."""

    task: str  # the task's name, or the family's
    family: str = ""  # empty for a fixed task
    path: str = ""  # folder of a fixed task; empty for a world
    digest: str = ""  # of a fixed task's files; a bench goes on only with the same ones
    horizon: int | None = None  # steps of necessary work; None for a fixed task
    noise: float | None = None  # 1 is about 1,500 characters an output; None for a fixed task

    @property
    def shown(self) -> str:
        if not self.family:
            return self.task
        return f"{self.task}-h{self.horizon}" + (f"-n{self.noise:g}" if self.noise != 1 else "")


class Variant(Struct, frozen=True):
    """A strategy, perhaps under other settings."""

    name: str  # as tables show it; without settings of its own the strategy as spelled
    strategy: str
    settings: dict[str, Any] = field(default_factory=dict)  # options that hold for this variant alone
    session: SessionKind | None = None  # how a world's requests are worked on; None where the whole world is one task


class Trial(Struct, frozen=True):
    """One run to be made."""

    id: str  # names it in the ledger and in the runs' folder
    subject: TrialSubject
    seed: int
    model: str
    variant: Variant
    settings: dict[str, Any]  # every option that was given, by name
    agent: tuple[str, ...] = ()  # the words of the command that works on it, where the agent is not ours


class BenchPlan(Struct, frozen=True):
    """The matrix, and how each trial is measured."""

    subjects: tuple[TrialSubject, ...]
    models: tuple[str, ...]
    variants: tuple[Variant, ...]
    trials: int = 1  # how many of each cell; their seeds are 1 to this
    settings: dict[str, Any] = field(default_factory=dict)  # options of every trial; a variant's own go over them
    # the model of the price table that the bill is made by; empty if each model makes its own
    price: str = "claude-sonnet-5-5"
    latency_seconds: float = 10.0  # between two requests to the model, by the bill's clock
    pause_seconds: float = 0.0  # more of them before each of a person's requests but the first
    keep_traces: Keep = "all"
    # suite, about: name of the suite it was made from, and what it says of itself; empty without one
    suite: str = ""
    about: str = ""
    command: str = ""  # how it was asked for
    version: str = VERSION  # the stackmem that began it; no other one goes on with it
    # the words of the command that works on the tasks, where the agent is not ours; each by its whole path
    agent: tuple[str, ...] = ()
    # package and version of each plug-in to its digest; with no other ones it goes on
    plugins: dict[str, str] = field(default_factory=dict)

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
                    trial = Trial("", subject, seed, model, variant, settings, plan.agent)
                    yield msgspec.structs.replace(trial, id=_named(trial))


def _named(trial: Trial) -> str:
    """Readable first; what makes it unique at its end. Where the task lies is no part of it, what it holds is."""
    subject, variant = trial.subject, trial.variant
    whole: list[Any] = [
        msgspec.structs.replace(subject, path=""), trial.seed, trial.model, variant.strategy, trial.settings,
        variant.name,
    ]  # fmt: skip
    whole += [more for more in (variant.session, trial.agent) if more]
    digest = hashlib.sha256(msgspec.json.encode(whole, order="deterministic")).hexdigest()[:12]
    words = (subject.shown, f"s{trial.seed}", trial.model, variant.name)
    return "_".join(re.sub(r"[^A-Za-z0-9.=-]+", "-", word).strip("-.")[:40] or "x" for word in words) + f"_{digest}"
