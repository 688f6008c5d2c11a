"""A real scheduler and worker processes on loopback: killing some neither loses nor duplicates a trial."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.foreign.installing import install_command
from stackmem.lab.bench.bench import Means, run_bench
from stackmem.lab.bench.engine_dask import DaskEngine
from stackmem.lab.bench.ledger import read_rows
from stackmem.lab.bench.results import read_results
from tests.stage import ROOT, eventually, mounted

from .benches import Killer, benched, endless, endless_trial, planned, small_tasks, timeless

SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"
WORKER = "from distributed.cli.dask_worker import main; main()"

MORE = {"PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}


class Cluster:
    """A scheduler and workers, each under its own nanny, with addresses and files in a private folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.started: list[subprocess.Popen[bytes]] = []
        self.start(SCHEDULER, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", log="scheduler")
        self.address = eventually(self._address)

    def start(self, program: str, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments], cwd=self.folder, stdout=file, stderr=file,
                env=os.environ | MORE, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        arguments = ("--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", "--name", name)
        return self.start(WORKER, self.address, *arguments, "--local-directory", str(self.folder), log=name)

    def _address(self) -> str:
        found = re.search(r"tcp://127\.0\.0\.1:\d+", (self.folder / "scheduler").read_text())
        return found[0] if found else ""

    def kill(self, nanny: subprocess.Popen[bytes]) -> None:
        """Kill the nanny and its worker, like a machine that loses power."""
        os.killpg(nanny.pid, signal.SIGKILL)
        nanny.wait()

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                self.kill(process)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    made = Cluster(folder)
    try:
        yield made
    finally:
        made.close()


def killed_midway(stage, tmp_path, trials: int) -> None:
    """Run on two workers, kill one with its nanny after a third of the trials, and count."""
    plan = planned(*small_tasks(stage, "one"), strategies=("full",), trials=trials)
    with cluster(tmp_path / "dask") as dask:
        victim, _ = dask.worker("first"), dask.worker("second")

        def tell(told) -> None:
            if victim.poll() is None and len(list(read_rows(tmp_path / "bench"))) >= trials // 3:
                dask.kill(victim)

        came = run_bench(plan, tmp_path / "bench", Means(2, "dask", dask.address), tell=tell)
        assert victim.poll() is not None
    rows = Counter(row["id"] for row in read_rows(tmp_path / "bench"))
    assert (came.ending, len(rows), set(rows.values())) == ("done", trials, {1})
    assert {row["outcome"] for row in read_results(tmp_path / "bench")} == {"solved"}


def test_a_worker_and_its_nanny_killed_midway_lose_no_trial_and_double_none(stage, tmp_path):
    killed_midway(stage, tmp_path, 12)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_five_hundred_trials_survive_a_killed_worker(stage, tmp_path):
    killed_midway(stage, tmp_path, 500)


@mounted
def test_the_results_are_those_of_the_local_engine(stage, tmp_path):
    plan = planned(*small_tasks(stage, "one"))
    with cluster(tmp_path / "dask") as dask:
        dask.worker("only")
        benched(plan, tmp_path / "far", engine="dask", scheduler=dask.address)
    benched(plan, tmp_path / "near")
    assert timeless(tmp_path / "far") == timeless(tmp_path / "near")


def test_a_trial_that_kills_every_worker_is_a_row_and_not_a_dead_cluster(stage, tmp_path):
    plan = planned(endless(stage), *small_tasks(stage, "one"), strategies=("full",))
    with cluster(tmp_path / "dask") as dask:
        dask.worker("only")

        kill = Killer(tmp_path / "bench", endless_trial(plan))
        run_bench(plan, tmp_path / "bench", Means(1, "dask", dask.address), tell=kill)
    assert len(kill.killed) == 2  # as many as the scheduler is configured to tolerate
    rows = {row["task"]: row for row in read_results(tmp_path / "bench")}
    assert {name: row["outcome"] for name, row in rows.items()} == {"endless": "error", "one": "solved"}
    assert rows["endless"]["error"] == "every worker that ran it died, possibly because memory ran out"


def test_a_trial_that_takes_too_long_is_killed_with_its_worker_and_the_others_are_made(stage, tmp_path):
    plan = planned(endless(stage), *small_tasks(stage, "one"), strategies=("full",))
    with cluster(tmp_path / "dask") as dask:
        dask.worker("only")
        came = run_bench(plan, tmp_path / "bench", Means(1, "dask", dask.address, trial_seconds=10.0))
    rows = {row["task"]: row for row in read_results(tmp_path / "bench")}
    assert {name: row["outcome"] for name, row in rows.items()} == {"endless": "error", "one": "solved"}
    assert rows["endless"]["error"] == "it took more than 10 s and was killed"
    assert came.ending == "done"


def test_a_scheduler_that_is_not_there_is_one_sentence():
    for address in ("tcp://127.0.0.1:1", "nonsense://x", ""):
        with pytest.raises(UsageError, match="no answer from a Dask scheduler"):
            DaskEngine(address, 1, connect_seconds=1)


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)  # as in an interpreter without the package
    with pytest.raises(UsageError, match=re.escape(install_command("dask"))):
        DaskEngine(None, 1)
