"""Trials in processes: some kill their worker, some never end, and workers are replaced."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stackmem.lab.bench.bench import Means, run_bench
from stackmem.lab.bench.engine import Lost, Throttled, TrialDone
from stackmem.lab.bench.engine_local import LocalEngine
from stackmem.lab.bench.plan import trials
from stackmem.lab.bench.results import read_results
from stackmem.lab.bench.trial import Job
from tests.stage import command, events, eventually, fails, pop

from .benches import Killer, asleep, endless, endless_trial, planned, small_tasks


@pytest.fixture
def engine():
    made = []

    def make(jobs: int = 1, **more) -> LocalEngine:
        made.append(LocalEngine(jobs, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def jobs_of(plan, folder: Path) -> list[Job]:
    return [Job(trial, str(folder), plan.price, plan.latency_seconds, "all") for trial in trials(plan)]


def reports(engine: LocalEngine, count: int = 1) -> list:
    found: list = []
    eventually(lambda: found.extend(engine.wait(0.1)) or len(found) >= count, 30)
    return found


def worker_of(engine: LocalEngine) -> int:
    pid = engine._busy[0].process.pid
    assert pid is not None
    return pid


def test_a_worker_makes_one_trial_after_the_other(stage, tmp_path, engine):
    plan = planned(*small_tasks(stage, "one"), strategies=("full",), trials=3)
    local, pids = engine(), set()
    for job in jobs_of(plan, tmp_path):
        local.submit(job)
        pids.add(worker_of(local))
        (done,) = reports(local)
        assert isinstance(done, TrialDone)
        assert done.row["outcome"] == "solved"
    assert len(pids) == 1


def test_a_worker_is_replaced_after_its_share(stage, tmp_path, engine):
    plan = planned(*small_tasks(stage, "one"), strategies=("full",), trials=3)
    local, pids = engine(trials_each=1), set()
    for job in jobs_of(plan, tmp_path):
        local.submit(job)
        pids.add(worker_of(local))
        assert isinstance(reports(local)[0], TrialDone)
    assert len(pids) == 3


def test_a_worker_that_is_killed_loses_its_trial_and_no_other(stage, tmp_path, engine):
    (first, *others) = jobs_of(planned(endless(stage), *small_tasks(stage, "one"), strategies=("full",)), tmp_path)
    local = engine()
    local.submit(first)
    eventually(asleep)
    os.kill(worker_of(local), signal.SIGKILL)
    (lost,) = reports(local)
    assert isinstance(lost, Lost)
    assert (lost.id, lost.final) == (first.trial.id, False)
    assert lost.reason == "its worker was killed by SIGKILL, possibly because memory ran out"
    local.submit(others[0])
    assert isinstance(reports(local)[0], TrialDone)


def test_a_trial_that_takes_too_long_is_killed_for_good(stage, tmp_path, engine):
    (job,) = jobs_of(planned(endless(stage), strategies=("full",)), tmp_path)
    local = engine(trial_seconds=1.0)
    local.submit(job)
    (lost,) = reports(local)
    assert (lost.final, lost.reason) == (True, "it took more than 1 s and was killed")


def test_rate_limits_are_noticed_during_a_trial(stage, tmp_path, engine):
    task = str(stage.task(fails("429", retry_after_seconds=0), command("true"), pop(), name="busy"))
    (job,) = jobs_of(planned(task, strategies=("full",)), tmp_path)
    local = engine()
    local.submit(job)
    first, second = reports(local, 2)
    assert first == Throttled(job.trial.id)
    assert isinstance(second, TrialDone)
    assert (second.row["outcome"], second.row["rate_limited"]) == ("solved", 1)


def test_closing_ends_what_is_under_way_with_all_it_started(stage, tmp_path, engine):
    (job,) = jobs_of(planned(endless(stage), strategies=("full",)), tmp_path)
    local = engine()
    local.submit(job)
    eventually(asleep)
    pid = worker_of(local)
    local.close()
    assert not Path(f"/proc/{pid}").exists()
    eventually(lambda: not asleep(), 5)


def test_a_poisonous_trial_is_a_row_and_the_others_go_on(stage, tmp_path):
    """The worker of the trial is always killed: the trial is tried twice and then given up."""
    plan = planned(endless(stage), *small_tasks(stage, "one", "two"), strategies=("full",))
    folder = tmp_path / "bench"
    kill = Killer(folder, endless_trial(plan))
    came = run_bench(plan, folder, Means(2), tell=kill)
    rows = {row["task"]: row for row in read_results(folder)}
    assert came.ending == "done"
    assert len(kill.killed) == 2
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "endless": "error",
        "one": "solved",
        "two": "solved",
    }
    assert rows["endless"]["error"].endswith("possibly because memory ran out; the second worker ended the same way")
    assert len(events(folder / rows["endless"]["run"])) >= 2


def test_workers_start_with_a_long_temporary_folder(tmp_path, home):
    """A socket path has at most 107 bytes, and workers are started through one."""
    temporary = tmp_path / ("t" * 90)
    temporary.mkdir()
    words = ["bench", "env_trap", "--horizon", "10", "--strategies", "full", "--models", "sim/bounded-reader"]
    words += ["--trials", "1", "--jobs", "1", "--isolation", "memory", "-o", str(tmp_path / "bench")]
    ran = subprocess.run(
        [sys.executable, "-m", "stackmem", *words],
        env=os.environ | {"TMPDIR": str(temporary)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "1 of 1 trial done" in ran.stdout
