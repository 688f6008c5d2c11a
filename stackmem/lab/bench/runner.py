"""Runs a plan to its end: every trial that has no row yet, at the pace, under the budget, until told to stop.

The pace says how many trials may ask one provider at once: one more after a quiet round, half as many when it complains
(AIMD).
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
from .plan import BenchPlan, Trial, trials
from .trial import WORK, Job, Row, error_row, remove_leftover

_LOOK_SECONDS = 0.25
_ATTEMPTS = 2

Ending = Literal["done", "budget", "interrupted"]


class BenchProgress(Struct):
    """What a run tells as it goes: a new row, None where only time has passed, and how many are under way."""

    row: Row | None
    running: int
    spent_usd: float


class Bounds(Struct, frozen=True):
    """What holds a run back."""

    pace: Pace
    prices: Mapping[str, Price | None]  # model to its price; None where nobody is paid
    # no trial is started that would take what was spent, and what those under way will cost, over it
    total_usd: float | None = None


class Runner:
    """One pass over a plan."""

    def __init__(self, plan: BenchPlan, folder: Path, ledger: Ledger, engine: Engine, bounds: Bounds) -> None:
        self._plan, self._folder, self._ledger, self._engine, self._bounds = plan, folder, ledger, engine, bounds
        self._waiting = deque(trial for trial in trials(plan) if trial.id not in ledger.rows)
        self._running: dict[str, Trial] = {}
        self._attempts: Counter[str] = Counter()
        self._known = CostEstimates.of(ledger.rows.values())

    def run(self, stop: Callable[[], bool], tell: Callable[[BenchProgress], None]) -> Ending:
        """Until every trial has a row, the budget is used up, or ``stop`` says so."""
        ended: list[Row | None] = []
        while not stop():
            short = self._start()
            for row in ended or (None,):
                tell(BenchProgress(row, len(self._running), self._ledger.paid_usd))
            if not self._running:
                return "budget" if short else "done"
            made = map(self._taken, self._engine.wait(_LOOK_SECONDS))
            ended = [row for row in made if row is not None]
        return "interrupted"

    def _start(self) -> bool:
        """Start what may be started; whether money alone keeps the rest from it."""
        passed: deque[Trial] = deque()
        short = False
        room = self._engine.places - len(self._running)
        asked = Counter(provider_of(trial.model) for trial in self._running.values())
        while room > 0 and self._waiting and not short:
            trial = self._waiting.popleft()
            provider = provider_of(trial.model)
            short = not self._affords(trial)
            if short or not self._bounds.pace.may_start(provider, asked[provider]):
                passed.append(trial)
                if len(passed) > 4 * self._engine.places:  # the others ask the same provider, most likely
                    break
                continue
            asked[provider] += 1
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
        open_usd = sum(self._expected(one) for one in (*self._running.values(), trial))
        return self._ledger.paid_usd + open_usd <= total

    def _expected(self, trial: Trial) -> float:
        return expected_usd(trial, self._bounds.prices.get(trial.model), self._known)

    def _taken(self, report: Report) -> Row | None:
        """The row that a trial ended with, if the report means that it ended."""
        match report:
            case TrialDone(row):
                return self._finished(row)
            case Throttled(id):
                provider = provider_of(self._running[id].model)
                asked = sum(provider_of(trial.model) == provider for trial in self._running.values())
                self._bounds.pace.throttled(provider, asked, time.monotonic())
            case Lost(id, why, final):
                trial = self._running[id]
                self._attempts[id] += 1
                remove_leftover(self._folder / WORK / id)
                if final or self._attempts[id] >= _ATTEMPTS:
                    again = "" if final else ", and so was the second one that took it"
                    return self._finished(error_row(trial, f"{why}{again}", self._folder))
                del self._running[id]
                self._waiting.appendleft(trial)
            case _:
                assert_never(report)
        return None

    def _finished(self, row: Row) -> Row:
        trial = self._running.pop(row["id"])
        self._ledger.add(row)
        self._known.add(row)
        if not row.get("rate_limited"):
            self._bounds.pace.finished(provider_of(trial.model))
        return row


QUIET_SECONDS = 10.0
"""Complaints within so long after one are about the same burst and halve nothing further."""


def provider_of(model: str) -> str:
    """Who is asked: what stands before ``/`` or ``:``."""
    if model.startswith("claude-"):
        return "anthropic"
    return model.replace(":", "/").partition("/")[0]


class Pace:
    """Begins at the most that was allowed and finds out what the provider takes."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self._allowed: dict[str, float] = {}
        self._complained: dict[str, float] = {}

    def allowed(self, provider: str) -> float:
        return self._allowed.get(provider, self._most.get(provider, inf))

    def may_start(self, provider: str, running: int) -> bool:
        """Whether one more trial may, beside ``running`` ones of the same provider; the first always may."""
        return running < max(1.0, self.allowed(provider))

    def throttled(self, provider: str, running: int, now: float) -> None:
        """The provider said that it is asked too much, by ``running`` trials."""
        if now - self._complained.get(provider, -inf) < QUIET_SECONDS:
            return
        self._complained[provider] = now
        self._allowed[provider] = max(1.0, min(self.allowed(provider), running) / 2)

    def finished(self, provider: str) -> None:
        """A trial ended without a complaint."""
        if provider in self._allowed:
            now = self._allowed[provider]
            self._allowed[provider] = min(now + 1 / now, float(self._most.get(provider, 10_000)))
