"""The plan of a bench: every trial, known before the first one starts.

Rule 1: the name of a trial is derived from its definition, so a bench that was killed knows which trials it has. Rule
2: trial i of a world is the task with seed i. Trial i of a fixed task passes seed i to the model. Rule 3: a plan can
grow (more trials, strategies or models), but its existing entries never change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from stackmem.core.version import VERSION

Keep = Literal["all", "failed", "none"]
SessionKind = Literal["frame", "flat", "new"]
"""How requests are handled: each in a frame of one session, all in one conversation, or each in a new session."""


class TrialSubject(Struct, frozen=True):
    """The task of a trial: a fixed task, or a generated task of a family at one horizon."""

    task: str  # name of the task or the family
    family: str = ""  # empty for a fixed task
    path: str = ""  # folder of a fixed task; empty for a world
    digest: str = ""  # of a fixed task's files; a bench continues only if it is unchanged
    horizon: int | None = None  # steps of necessary work; None for a fixed task
    noise: float | None = None  # 1 is about 1,500 characters per output; None for a fixed task

    @property
    def label(self) -> str:
        if not self.family:
            return self.task
        return f"{self.task}-h{self.horizon}" + (f"-n{self.noise:g}" if self.noise != 1 else "")


class Variant(Struct, frozen=True):
    """A strategy, optionally with its own settings."""

    name: str  # the name in tables; without own settings, the strategy as spelled
    strategy: str
    settings: dict[str, Any] = field(default_factory=dict)  # options for this variant only
    session: SessionKind | None = None  # how a world's requests are handled; None if the whole world is one task


class Trial(Struct, frozen=True):
    """One run of the matrix."""

    id: str  # the name in the ledger and in the folder of runs
    subject: TrialSubject
    seed: int
    model: str
    variant: Variant
    settings: dict[str, Any]  # every given option, by name
    agent: tuple[str, ...] = ()  # the command line of a foreign agent; empty for stackmem's own


class BenchPlan(Struct, frozen=True):
    """The matrix of trials, and how each one is measured."""

    subjects: tuple[TrialSubject, ...]
    models: tuple[str, ...]
    variants: tuple[Variant, ...]
    trials: int = 1  # trials per cell, with the seeds 1 to this number
    settings: dict[str, Any] = field(default_factory=dict)  # options of every trial; those of a variant override them
    # The model in the price table that determines the bill; if empty, each model has its own.
    price: str = "claude-sonnet-5-5"
    latency_seconds: float = 10.0  # time between two requests to the model, on the bill's clock
    pause_seconds: float = 0.0  # extra time before each of the user's requests after the first
    keep_traces: Keep = "all"
    # suite, about: name and description of the suite; empty without one
    suite: str = ""
    description: str = field(default="", name="about")
    command: str = ""  # the command line that started the bench
    version: str = VERSION  # the stackmem version that started it; other versions cannot continue it
    # The command line of a foreign agent, with absolute paths; empty for stackmem's own.
    agent: tuple[str, ...] = ()
    # How often the trials are compared, after equal parts of the seeds, and by which figure; 1 means only at the end.
    looks: int = 1
    decide_on: str = ""  # a name in ``looks.FIGURES``; empty without looks
    # Package and version of each plug-in, to its digest. The bench continues only with the same plug-ins.
    plugins: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.subjects) * len(self.models) * len(self.variants) * self.trials


def trials(plan: BenchPlan) -> Iterator[Trial]:
    """Yield every trial. Trials that are compared are adjacent, so a bench that ends early has complete comparisons."""
    for seed in range(1, plan.trials + 1):
        for subject in plan.subjects:
            for model in plan.models:
                for variant in plan.variants:
                    settings = {**plan.settings, **variant.settings}
                    trial = Trial("", subject, seed, model, variant, settings, plan.agent)
                    yield msgspec.structs.replace(trial, id=_readable_id(trial))


def _readable_id(trial: Trial) -> str:
    """Return a readable name that ends with a digest. The digest covers a task's content, but not its path."""
    subject, variant = trial.subject, trial.variant
    identity: list[Any] = [
        msgspec.structs.replace(subject, path=""), trial.seed, trial.model, variant.strategy, trial.settings,
        variant.name,
    ]  # fmt: skip
    identity += [more for more in (variant.session, trial.agent) if more]
    digest = hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()[:12]
    words = (subject.label, f"s{trial.seed}", trial.model, variant.name)
    return "_".join(re.sub(r"[^A-Za-z0-9.=-]+", "-", word).strip("-.")[:40] or "x" for word in words) + f"_{digest}"
