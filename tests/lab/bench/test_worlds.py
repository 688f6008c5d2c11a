"""Benches of generated worlds under the simulated model, in memory, where every value must be reproducible."""

import os
import sqlite3
from pathlib import Path

import pytest

from stackmem.lab.bench.bench import Came, Means, run_bench
from stackmem.lab.bench.engine import TrialDone
from stackmem.lab.bench.engine_local import LocalEngine
from stackmem.lab.bench.ledger import read_rows
from stackmem.lab.bench.plan import BenchPlan, trials
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.results import RESULTS, read_results
from stackmem.lab.bench.suite import SuiteRequest, read_suite
from stackmem.lab.bench.trial import Job
from stackmem.memory import STRATEGIES
from tests.stage import ROOT, eventually

from .benches import timeless

IN_MEMORY = {"isolation": "memory", "fsync": "none"}
SUITES = sorted((ROOT / "benchmarks" / "suites").glob("*.toml"))


def planned(*worlds: str, **more) -> BenchPlan:
    given = {"strategies": ("all",), "models": ("sim/bounded-reader",), "horizons": (10,), "settings": IN_MEMORY} | more
    return make_plan(SuiteRequest(worlds=worlds, **given), Path.cwd(), {})


def benched(plan: BenchPlan, folder: Path, **more) -> Came:
    return run_bench(plan, folder, Means(2), **more)


def test_every_strategy_twice_gives_the_same_prompts_events_and_figures(tmp_path):
    in_memory = tuple(name for name in STRATEGIES if name != "rlm")  # rlm runs Python in a sandbox
    plan = planned("ledger", "env_trap", strategies=in_memory)
    for name in ("first", "second"):
        came = benched(plan, tmp_path / name)
        assert {row["error"] for row in came.rows if row["outcome"] == "error"} == set()
    assert timeless(tmp_path / "first") == timeless(tmp_path / "second")
    rows = read_results(tmp_path / "first")
    assert len({row["fingerprint"] for row in rows}) == len(rows)
    assert {row["not_sent"] for row in rows} == {0}  # the bill counts the exact bytes sent


def test_a_world_is_made_once_for_all_the_trials_of_its_seed(tmp_path):
    plan = planned("ledger", trials=2, horizons=(10, 20))
    made: dict[str, int] = {}

    def look(told) -> None:
        for task in (tmp_path / "bench" / "tasks").glob("*/task.toml"):
            made.setdefault(task.parent.name, task.stat().st_mtime_ns)

    benched(plan, tmp_path / "bench", tell=look)
    tasks = {task.parent.name: task.stat().st_mtime_ns for task in (tmp_path / "bench" / "tasks").glob("*/task.toml")}
    assert set(tasks) == {"ledger-h10-s1", "ledger-h10-s2", "ledger-h20-s1", "ledger-h20-s2"}
    assert made == tasks
    assert {path.name for path in (tmp_path / "bench" / "tasks").iterdir()} == set(tasks)


def test_seeds_are_different_worlds_and_strategies_share_them(tmp_path):
    benched(planned("ledger", strategies=("full", "stackheap"), trials=2, keep_traces="none"), tmp_path / "bench")
    with sqlite3.connect(tmp_path / "bench" / RESULTS) as database:
        found = database.execute("SELECT task, seed, count(*) FROM trials GROUP BY task, seed").fetchall()
    assert found == [("ledger", 1, 2), ("ledger", 2, 2)]


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_the_suites_of_the_repository_are_plans(suite):
    plan = make_plan(read_suite(suite, ""), ROOT, {})
    assert plan.count >= 20
    assert plan.settings["isolation"] == "memory"


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def test_a_worker_stays_as_large_as_it_is(tmp_path):
    plan = planned("ledger", strategies=("full", "stackheap"), trials=30, keep_traces="none")
    engine = LocalEngine(1, trials_each=1_000)
    sizes = []
    try:
        for trial in trials(plan):
            engine.submit(Job(trial, str(tmp_path), plan.price, plan.latency_seconds, "none"))
            (pid,) = (worker.process.pid for worker in engine._busy)
            (done,) = eventually(lambda: engine.wait(0.5))
            assert isinstance(done, TrialDone)
            sizes.append(resident_mib(pid))
    finally:
        engine.close()
    assert sizes[-1] - sizes[19] < 8


@pytest.mark.campaign
@pytest.mark.timeout(1_500)
def test_the_zoo_twice_is_the_same_and_takes_less_than_ten_minutes(tmp_path):
    plan = make_plan(read_suite(ROOT / "benchmarks" / "suites" / "zoo.toml", ""), ROOT, {})
    for name in ("first", "second"):
        came = benched(plan, tmp_path / name)
        assert (came.ending, came.fresh) == ("done", plan.count)
    assert timeless(tmp_path / "first") == timeless(tmp_path / "second")
    rows = read_results(tmp_path / "first")
    assert max(row["finished"] for row in rows) - min(row["started"] for row in rows) < 600


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
def test_ten_thousand_trials_leave_the_runner_as_large_as_it_was(tmp_path):
    plan = planned("all", strategies=("full", "stackheap"), trials=625, keep_traces="none")
    sizes: list[float] = []
    benched(plan, tmp_path / "bench", tell=lambda told: told.row and sizes.append(resident_mib(os.getpid())))
    assert len({row["id"] for row in read_rows(tmp_path / "bench")}) == plan.count == len(sizes) == 10_000
    assert sizes[-1] - sizes[1_000] < 40  # MiB of growth during 9,000 further trials


def outcomes(folder: Path) -> dict[tuple[str, str], tuple[str, str, int]]:
    return {
        (row["task"], row["strategy"]): (row["outcome"], row["ending"], row["steps"]) for row in read_results(folder)
    }


def sandboxed_as_in_memory(folder: Path, *worlds: str, horizon: int) -> None:
    """Run every strategy on the worlds with seed 1, in memory and in the real sandbox."""
    for isolation in ("memory", "auto"):
        settings = {"isolation": isolation, "fsync": "none"}
        benched(planned(*worlds, horizons=(horizon,), settings=settings, keep_traces="none"), folder / isolation)
    assert outcomes(folder / "auto") == outcomes(folder / "memory")


@pytest.mark.campaign
@pytest.mark.timeout(5_400)
def test_the_zoo_gives_the_same_results_in_the_real_sandbox(tmp_path):
    sandboxed_as_in_memory(tmp_path, "all", horizon=60)
