"""Load: benches whose workers are killed at random moments, and many parallel runs on one host."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from stackmem import replay
from stackmem.lab.bench.bench import Means, run_bench
from stackmem.lab.bench.ledger import read_rows
from stackmem.lab.bench.plan import BenchPlan
from stackmem.workspace.family import descendants
from tests.campaigns import LONG, Campaign
from tests.conftest import CAMPAIGN
from tests.stage import Stage, command, events, pop

from .benches import timeless
from .test_worlds import planned

TRIALS = 100 if CAMPAIGN else 20
"""Trials in a piece, of which one worker is killed: one in a hundred of 10,000 trials loses its worker."""
PIECES = 100 if CAMPAIGN else 1
RUNS = 200 if CAMPAIGN else 6


def workers() -> list[int]:
    """Return the processes that run trials: children of the one that forks them."""
    found = []
    for process in descendants(os.getpid()):
        with suppress(OSError):
            parent = (Path("/proc") / str(process.parent) / "cmdline").read_bytes()
            if b"forkserver" in parent and process.parent != os.getpid() and process.state not in "ZX":
                found.append(process.pid)
    return found


def killer(chance: Random, counts: dict[str, int]) -> Callable[[object], None]:
    """Kill one worker after some trial has ended, while other trials are running."""
    left = [chance.randrange(1, TRIALS - 2)]

    def told(_: object) -> None:
        left[0] -= 1
        if left[0] == 0 and (found := workers()):
            os.kill(chance.choice(found), signal.SIGKILL)
            counts["workers killed"] = counts.get("workers killed", 0) + 1

    return told


def plan_of(piece: int) -> BenchPlan:
    world = ("ledger", "env_trap", "checklist", "relay")[piece % 4]
    return planned(world, strategies=("full", "stackheap"), trials=TRIALS // 2, keep_traces="none")


@LONG
def test_trials_whose_workers_are_killed_all_come_to_what_they_come_to_undisturbed(tmp_path: Path):
    campaign = Campaign("trials with killed workers", PIECES, saved_every=1)
    whole: dict[int, list[dict[str, object]]] = {}
    for piece in campaign:
        plan, place = plan_of(piece), tmp_path / f"killed-{piece}"
        if piece % 4 not in whole:
            run_bench(plan, tmp_path / f"whole-{piece}", Means(2))
            whole[piece % 4] = timeless(tmp_path / f"whole-{piece}")
        counts = campaign.progress.counts
        came = run_bench(plan, place, Means(2), tell=killer(Random(piece), counts))
        ids = [row["id"] for row in read_rows(place)]
        assert (came.ending, len(ids), len(set(ids))) == ("done", TRIALS, TRIALS), piece
        assert timeless(place) == whole[piece % 4], piece
        counts["trials"] = counts.get("trials", 0) + TRIALS
    assert campaign.progress.counts["workers killed"] >= 1


@LONG
def test_many_runs_at_once_on_one_host_each_come_to_their_own_end(stage: Stage):
    task = stage.task(command("echo one > one.txt; sleep 0.5; cat one.txt"), pop("All done."))
    started = [stage.start("solve", task, "--model", "demo", "--quiet") for _ in range(RUNS)]
    codes = [process.wait(timeout=3_000) for process in started]
    for process in started:
        process.communicate()
    assert codes == [0] * RUNS
    runs = sorted(stage.runs.iterdir())
    assert len(runs) == RUNS
    assert {replay(run).outcome for run in runs} == {"solved"}
    assert len({len(events(run)) for run in runs}) == 1
    assert not list(stage.runs.glob("*/trace.lock"))
    assert not {process.pid for process in descendants(os.getpid())} & {process.pid for process in started}
