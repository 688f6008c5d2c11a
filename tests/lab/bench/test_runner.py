"""When trials start: the pace, the budget, and the handling of a lost trial."""

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.pricing import Price
from stackmem.lab.bench.engine import Lost, Report, Throttled, TrialDone
from stackmem.lab.bench.ledger import Ledger
from stackmem.lab.bench.plan import BenchPlan, TrialSubject, Variant, trials
from stackmem.lab.bench.runner import BenchProgress, Bounds, Pace, Runner
from stackmem.lab.bench.trial import Job, Row, identity

PRICE = Price(3.0, 15.0, 3.75, 6.0, 0.3, "a test")


class Instant:
    """An engine that reports what it ``says``, then ends one trial per poll, oldest first."""

    def __init__(self, places: int = 4, says: tuple[Report, ...] = (), **row: Any) -> None:
        self.places = places
        self.jobs: deque[Job] = deque()
        self.most = 0
        self.taken: list[str] = []
        self._says = deque(says)
        self._row = row

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        self.taken.append(job.trial.id)
        self.most = max(self.most, len(self.jobs))

    def wait(self, seconds: float) -> list[Report]:
        if self._says:
            told = self._says.popleft()
            if isinstance(told, Lost):
                self.jobs.remove(next(job for job in self.jobs if job.trial.id == told.id))
            return [told]
        job = self.jobs.popleft()
        return [TrialDone({**identity(job.trial), "outcome": "solved", "solved": 1, **self._row})]

    def close(self) -> None:
        self.jobs.clear()


def planned(count: int, *models: str) -> BenchPlan:
    return BenchPlan((TrialSubject("calculator"),), models or ("anthropic/m",), (Variant("full", "full"),), count)


def run(
    plan: BenchPlan, folder: Path, engine: Instant, bounds: Bounds | None = None, **more: Any
) -> tuple[str, list[Row]]:
    with Ledger(folder, plan) as ledger:
        stop = more.get("stop", lambda: False)
        ending = Runner(plan, folder, ledger, engine, bounds or Bounds(Pace({}), {})).run(stop, _unheard)
        return ending, list(ledger.rows.values())


def test_as_many_run_at_once_as_the_engine_has_places(tmp_path):
    engine = Instant(3)
    ending, rows = run(planned(10), tmp_path, engine)
    assert (ending, len(rows), engine.most) == ("done", 10, 3)


def test_a_bound_on_a_provider_leaves_the_places_to_the_others(tmp_path):
    engine = Instant(4)
    run(planned(6, "anthropic/m", "sim/x"), tmp_path, engine, Bounds(Pace({"anthropic": 1}), {}))
    first = [job for job in engine.taken[:4] if "anthropic" in job]
    assert (len(first), len(engine.taken), engine.most) == (1, 12, 4)


def test_a_provider_that_complains_is_asked_by_half_as_many(tmp_path):
    plan = planned(9)
    first = _ids(plan)[0]
    pace = Pace({})
    engine = Instant(8, says=(Throttled(first),))
    ending, rows = run(plan, tmp_path, engine, Bounds(pace, {}))
    assert (ending, len(rows)) == ("done", 9)
    assert 4 < pace.allowed("anthropic") < 8  # half of eight, plus a little for each trial since


def test_a_lost_trial_is_repeated_once(tmp_path):
    plan = planned(2)
    first, second = _ids(plan)
    engine = Instant(1, says=(Lost(first, "its worker was killed by SIGKILL"),))
    ending, rows = run(plan, tmp_path, engine)
    assert engine.taken == [first, first, second]
    assert (ending, {row["outcome"] for row in rows}) == ("done", {"solved"})


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ([("killed", False), ("killed", False)], "killed; the second worker ended the same way"),
        ([("it took too long", True)], "it took too long"),
    ],
)
def test_one_that_is_lost_for_good_is_a_row(tmp_path, lost, said):
    plan = planned(2)
    first, _ = _ids(plan)
    ending, rows = run(plan, tmp_path, Instant(1, says=tuple(Lost(first, why, final) for why, final in lost)))
    assert ending == "done"
    assert [(row["outcome"], row.get("error")) for row in rows] == [("error", said), ("solved", None)]


def test_no_trial_is_started_that_would_break_the_budget(tmp_path):
    bounds = Bounds(Pace({}), {"anthropic/m": PRICE}, total_usd=1.0)
    engine = Instant(1, cost_usd=0.3)
    ending, rows = run(planned(10), tmp_path, engine, bounds)
    assert (ending, len(rows)) == ("budget", 3)


def test_running_trials_count_as_spent(tmp_path):
    bounds = Bounds(Pace({}), {"anthropic/m": PRICE}, total_usd=1.0)
    engine = Instant(8, cost_usd=0.3)
    ending, rows = run(planned(10), tmp_path, engine, bounds)
    assert ending == "budget"
    assert sum(row["cost_usd"] for row in rows) <= 1.0


def test_a_larger_budget_continues_and_counts_earlier_costs(tmp_path):
    for total, there in ((1.0, 3), (1.5, 5)):
        bounds = Bounds(Pace({}), {"anthropic/m": PRICE}, total_usd=total)
        _, rows = run(planned(10), tmp_path, Instant(1, cost_usd=0.3), bounds)
        assert len(rows) == there


def test_free_trials_need_no_budget(tmp_path):
    bounds = Bounds(Pace({}), {"sim/x": None}, total_usd=0.001)
    assert run(planned(5, "sim/x"), tmp_path, Instant(2, cost_usd=None), bounds)[0] == "done"


def test_a_stop_leaves_the_remaining_trials(tmp_path):
    looks = iter([False, False, False, True])
    ending, rows = run(planned(10), tmp_path, Instant(1), stop=lambda: next(looks))
    assert (ending, len(rows)) == ("interrupted", 3)


def _unheard(told: BenchProgress) -> None:
    pass


def _ids(plan: BenchPlan) -> list[str]:
    return [trial.id for trial in trials(plan)]
