"""Run a plan to its end: every trial without a row, within the pace and the budget, until it is stopped.

The pace limits the concurrent trials per provider. It adds one after a quiet round and halves the limit on complaints
(AIMD: additive increase, multiplicative decrease).
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Literal, assert_never

from msgspec import Struct

from stackmem.core.pricing import Price

from .engine import Engine, Lost, Report, Throttled, TrialDone
from .estimate import CostEstimates, expected_usd
from .ledger import Ledger
from .looks import decided, seeds_at
from .plan import BenchPlan, Trial, trials
from .trial import WORK, Job, Row, error_row, remove_leftover

_LOOK_SECONDS = 0.25
_ATTEMPTS = 2

Ending = Literal["done", "decided", "budget", "interrupted"]
"""``decided`` means that a look gave every strategy a verdict before the last seed."""


class BenchProgress(Struct):
    """Progress of a run: a new row, or None if only time has passed, and the number of running trials."""

    row: Row | None
    running: int
    spent_usd: float


class Bounds(Struct, frozen=True):
    """The limits of a run."""

    pace: Pace
    prices: Mapping[str, Price | None]  # price of each model; None if it is free
    # A trial starts only if the money spent plus the expected cost of running trials stays within this.
    total_usd: float | None = None


class Runner:
    """One pass over a plan."""

    def __init__(self, plan: BenchPlan, folder: Path, ledger: Ledger, engine: Engine, bounds: Bounds) -> None:
        self._plan, self._folder, self._ledger, self._engine, self._bounds = plan, folder, ledger, engine, bounds
        self._waiting = deque(trial for trial in trials(plan) if trial.id not in ledger.rows)
        self._running: dict[str, Trial] = {}
        self._attempts: Counter[str] = Counter()
        self._estimates = CostEstimates.of(ledger.rows.values())
        self._looks = deque(seeds_at(plan))
        self._seeds = self._looks.popleft()  # trials with larger seeds wait for the next look

    def run(self, stop: Callable[[], bool], tell: Callable[[BenchProgress], None]) -> Ending:
        """Run until every trial has a row, the budget is used up, or ``stop`` returns True."""
        ended: list[Row | None] = []
        while not stop():
            short = self._start()
            for row in ended or (None,):
                tell(BenchProgress(row, len(self._running), self._ledger.paid_usd))
            if not self._running:
                if short:
                    return "budget"
                if not self._looks:
                    return "done"
                if decided(self._plan, self._ledger.rows, self._seeds):
                    return "decided"
                self._seeds, ended = self._looks.popleft(), []
                continue
            rows = map(self._handle, self._engine.wait(_LOOK_SECONDS))
            ended = [row for row in rows if row is not None]
        return "interrupted"

    def _start(self) -> bool:
        """Start as many trials as allowed. Returns whether the budget prevents the rest from starting."""
        passed: deque[Trial] = deque()
        short = False
        room = self._engine.places - len(self._running)
        running_per_provider = Counter(provider_of(trial.model) for trial in self._running.values())
        while room > 0 and self._waiting and self._waiting[0].seed <= self._seeds and not short:
            trial = self._waiting.popleft()
            provider = provider_of(trial.model)
            short = not self._affords(trial)
            if short or not self._bounds.pace.may_start(provider, running_per_provider[provider]):
                passed.append(trial)
                if len(passed) > 4 * self._engine.places:  # the remaining trials most likely use the same busy provider
                    break
                continue
            running_per_provider[provider] += 1
            room -= 1
            self._running[trial.id] = trial
            plan = self._plan
            self._engine.submit(
                Job(
                    trial,
                    str(self._folder),
                    plan.price,
                    plan.latency_seconds,
                    plan.keep_traces,
                    plan.pause_seconds,
                    plugins=plan.plugins,
                )
            )
        self._waiting.extendleft(reversed(passed))
        return short

    def _affords(self, trial: Trial) -> bool:
        total = self._bounds.total_usd
        if total is None:
            return True
        open_usd = sum(self._expected(each) for each in (*self._running.values(), trial))
        return self._ledger.paid_usd + open_usd <= total

    def _expected(self, trial: Trial) -> float:
        return expected_usd(trial, self._bounds.prices.get(trial.model), self._estimates)

    def _handle(self, report: Report) -> Row | None:
        """Handle a report. Returns the row if the trial has ended."""
        match report:
            case TrialDone(row):
                return self._finished(row)
            case Throttled(id):
                provider = provider_of(self._running[id].model)
                running = sum(provider_of(trial.model) == provider for trial in self._running.values())
                self._bounds.pace.throttled(provider, running, time.monotonic())
            case Lost(id, reason, final):
                trial = self._running[id]
                self._attempts[id] += 1
                remove_leftover(self._folder / WORK / id)
                if final or self._attempts[id] >= _ATTEMPTS:
                    suffix = "" if final else "; the second worker ended the same way"
                    return self._finished(error_row(trial, f"{reason}{suffix}", self._folder))
                del self._running[id]
                self._waiting.appendleft(trial)
            case _:
                assert_never(report)
        return None

    def _finished(self, row: Row) -> Row:
        trial = self._running.pop(row["id"])
        self._ledger.add(row)
        self._estimates.add(row)
        if not row.get("rate_limited"):
            self._bounds.pace.finished(provider_of(trial.model))
        return row


QUIET_SECONDS = 10.0
"""Complaints within this time after another belong to the same burst and do not halve the limit again."""


def provider_of(model: str) -> str:
    """Return the provider of a model: the part before ``/`` or ``:``."""
    if model.startswith("claude-"):
        return "anthropic"
    return model.replace(":", "/").partition("/")[0]


class Pace:
    """Starts at the allowed maximum and adapts to what the provider accepts."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self._allowed: dict[str, float] = {}
        self._complained: dict[str, float] = {}

    def allowed(self, provider: str) -> float:
        return self._allowed.get(provider, self._most.get(provider, inf))

    def may_start(self, provider: str, running: int) -> bool:
        """Return whether another trial can start next to ``running`` ones. The first one always can."""
        return running < max(1.0, self.allowed(provider))

    def throttled(self, provider: str, running: int, now: float) -> None:
        """Record a rate limit of the provider with ``running`` concurrent trials."""
        if now - self._complained.get(provider, -inf) < QUIET_SECONDS:
            return
        self._complained[provider] = now
        self._allowed[provider] = max(1.0, min(self.allowed(provider), running) / 2)

    def finished(self, provider: str) -> None:
        """Record a trial that ended without a complaint."""
        if provider in self._allowed:
            now = self._allowed[provider]
            self._allowed[provider] = min(now + 1 / now, float(self._most.get(provider, 10_000)))
