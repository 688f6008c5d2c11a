"""Whole benches: one row per trial, reproducible, killed and resumed."""

import os
import signal
import sqlite3
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.lab.bench.bench import Means, run_bench
from stackmem.lab.bench.ledger import read_rows
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.results import RESULTS, read_results, read_suite
from stackmem.lab.bench.suite import SuiteRequest
from stackmem.run.run_folder import LEDGER
from tests.stage import UNSOLVED, command, events, eventually, fails, mounted, pop

from .benches import FAST, benched, planned, small_tasks, timeless


def test_every_trial_is_a_row_with_its_metrics_and_its_bill(stage, tmp_path):
    plan = planned(*small_tasks(stage, "one", "two"), trials=2)
    came = benched(plan, tmp_path / "bench")
    rows = read_results(tmp_path / "bench")
    assert (came.ending, came.fresh, len(rows)) == ("done", 8, 8)
    assert {(row["task"], row["strategy"], row["seed"]) for row in rows} == {
        (task, strategy, seed) for task in ("one", "two") for strategy in ("full", "stackheap") for seed in (1, 2)
    }
    for row in rows:
        assert (row["outcome"], row["solved"], row["ending"], row["steps"]) == ("solved", 1, "popped", 2)
        assert row["bill_usd"] > 0
        assert row["bill_uncached"] + row["bill_read"] + row["bill_write_5m"] + row["bill_write_1h"] > 0
        assert len(events(tmp_path / "bench" / row["run"])) > 3
    assert not (tmp_path / "bench" / "work").exists()


@mounted
def test_twice_is_the_same_but_for_times(stage, tmp_path):
    plan = planned(*small_tasks(stage, "one", "two"), trials=2)
    for name in ("first", "second"):
        benched(plan, tmp_path / name)
    assert timeless(tmp_path / "first") == timeless(tmp_path / "second")


def test_a_bench_that_is_whole_runs_nothing_and_writes_its_results_again(stage, tmp_path):
    plan = planned(*small_tasks(stage, "one"))
    benched(plan, tmp_path / "bench")
    before = read_results(tmp_path / "bench")
    (tmp_path / "bench" / RESULTS).unlink()
    assert benched(plan, tmp_path / "bench").fresh == 0
    assert read_results(tmp_path / "bench") == before


def test_a_bench_that_grows_runs_what_is_new(stage, tmp_path):
    (task,) = small_tasks(stage, "one")
    benched(planned(task, strategies=("full",)), tmp_path / "bench")
    came = benched(planned(task, trials=2), tmp_path / "bench")
    assert (came.fresh, len(came.rows)) == (3, 4)


def test_unsolved_and_failed_trials_have_rows_too(stage, tmp_path):
    tasks = (
        str(stage.task(pop(), name="unsolved", test=UNSOLVED)),
        str(stage.task(command("true"), name="dry")),
        str(stage.task(fails("auth"), name="refused")),
    )
    came = benched(planned(*tasks, strategies=("full",)), tmp_path / "bench")
    rows = {row["task"]: row for row in came.rows}
    assert came.ending == "done"
    assert {name: (row["outcome"], row["solved"]) for name, row in rows.items()} == {
        "unsolved": ("unsolved", 0), "dry": ("error", None), "refused": ("error", None),
    }  # fmt: skip
    assert "auth" in rows["refused"]["error"]


def test_a_task_that_went_away_is_a_row_and_not_the_end(stage, tmp_path):
    one, two = small_tasks(stage, "one", "two")
    plan = planned(one, two, strategies=("full",))
    (Path(one) / "task.toml").unlink()
    came = benched(plan, tmp_path / "bench")
    assert {row["task"]: row["outcome"] for row in came.rows} == {"one": "error", "two": "solved"}
    assert "task.toml" in next(row["error"] for row in came.rows if row["task"] == "one")


@pytest.mark.parametrize(("keep", "kept"), [("all", {"good", "bad"}), ("failed", {"bad"}), ("none", set())])
def test_traces_are_kept_as_asked(stage, tmp_path, keep, kept):
    tasks = (str(stage.task(pop(), name="good")), str(stage.task(pop(), name="bad", test=UNSOLVED)))
    benched(planned(*tasks, strategies=("full",), keep_traces=keep), tmp_path / "bench")
    rows = read_results(tmp_path / "bench")
    assert {row["task"] for row in rows if row["run"]} == kept
    assert len(list((tmp_path / "bench").glob("runs/*/*/trace.jsonl"))) == len(kept)


@mounted
def test_variables_and_files_of_settings_change_no_trial(stage, tmp_path, monkeypatch):
    (task,) = small_tasks(stage, "one")
    plan = planned(task, strategies=("full",))
    benched(plan, tmp_path / "first")
    monkeypatch.setenv("STACKMEM_DEPTH", "2")
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "stackmem" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("heap_chars = 77\n")
    benched(plan, tmp_path / "second")
    assert timeless(tmp_path / "first") == timeless(tmp_path / "second")


def test_a_variant_runs_under_its_own_settings(stage, tmp_path):
    (task,) = small_tasks(stage, "one")
    suite = tmp_path / "depths.toml"
    suite.write_text(
        f'tasks = ["{task}"]\nmodels = ["demo"]\n[settings]\nfsync = "none"\n'
        + "".join(f'[[variants]]\nname = "depth {n}"\nstrategy = "stackheap"\ndepth = {n}\n' for n in (1, 8))
    )
    ran = stage.call("bench", suite, "-o", tmp_path / "bench", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = {row["strategy"]: row for row in read_results(tmp_path / "bench")}
    depths = {name: events(tmp_path / "bench" / row["run"])[0].budgets.depth for name, row in rows.items()}
    assert depths == {"depth 1": 1, "depth 8": 8}
    assert rows["depth 1"]["settings"] == '{"depth": 1}'
    assert read_suite(tmp_path / "bench")["suite"] == "depths"


@pytest.mark.parametrize("number", ["2", 3])
def test_parallel_frames_are_refused(stage, number):
    request = SuiteRequest(
        worlds=("ledger",), strategies=("stackheap",), models=("sim/bounded-reader",),
        settings={"parallel_frames": number},
    )  # fmt: skip
    with pytest.raises(UsageError, match="cannot measure parallel frames"):
        make_plan(request, stage.root, os.environ)


def test_a_budget_is_refused_without_a_known_price(stage, tmp_path):
    (task,) = small_tasks(stage, "one")
    plan = planned(task, models=("openai/q",), settings={"base_url": "http://127.0.0.1:9"})
    with pytest.raises(UsageError, match="the price of openai/q is unknown"):
        run_bench(plan, tmp_path / "bench", Means(1, total_usd=1.0))


def test_results_can_be_queried_as_the_page_on_benches_says(stage, tmp_path):
    benched(planned(*small_tasks(stage, "one")), tmp_path / "bench")
    with sqlite3.connect(tmp_path / "bench" / RESULTS) as database:
        found = database.execute("SELECT strategy, trials, errors, solved FROM means ORDER BY strategy").fetchall()
    assert found == [("full", 1, 0, 1.0), ("stackheap", 1, 0, 1.0)]


def slow_tasks(stage, count: int) -> list[str]:
    return list(small_tasks(stage, *(f"t{n}" for n in range(count)), replies=(command("sleep 0.2"), pop())))


def arguments(tasks: list[str], folder: Path) -> list[str]:
    return [*tasks, "--strategies", "full", "--models", "demo", "--fsync", "none", "--jobs", "2", "-o", str(folder)]


def children_of(pid: int) -> set[int]:
    found = {pid}
    while True:
        more = set(found)
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
                except (OSError, IndexError):
                    continue
                if parent in found:
                    more.add(int(process.name))
        if more == found:
            return found - {pid}
        found = more


def lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


@mounted
def test_a_bench_killed_and_restarted_gives_the_same_table(stage, tmp_path):
    tasks = slow_tasks(stage, 5)
    bench, whole = tmp_path / "bench", tmp_path / "whole"
    running = stage.start("bench", *arguments(tasks, bench), fresh=True)  # a fork shares the state of multiprocessing
    eventually(lambda: (bench / LEDGER).exists() and (bench / LEDGER).read_bytes().count(b"\n") >= 2)
    family = children_of(running.pid)
    running.kill()
    running.communicate()
    assert len(family) >= 3  # the process that forks, and at least two workers
    eventually(lambda: not [pid for pid in family if lives(pid)], 10, "every process it had started ends with it")
    had = len(list(read_rows(bench)))
    assert 2 <= had < 5
    again = stage.call("bench", "-o", bench, "--jobs", "2")
    assert again.returncode == 0, again.stderr
    assert f"5 of 5 trials done, {5 - had} now" in again.stdout
    benched(planned(*tasks, strategies=("full",)), whole)
    assert timeless(bench) == timeless(whole)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_is_finished_and_says_how_to_go_on(stage, tmp_path, number, code):
    tasks = slow_tasks(stage, 8)
    bench = tmp_path / "bench"
    running = stage.start("bench", *arguments(tasks, bench), fresh=True)  # a fork shares the state of multiprocessing
    eventually(lambda: (bench / LEDGER).exists() and (bench / LEDGER).read_bytes().count(b"\n") >= 1)
    family = children_of(running.pid)
    os.kill(running.pid, number)
    out, err = running.communicate(timeout=100)
    assert running.returncode == code, err
    assert f"to continue, run: stackmem bench -o {bench}" in out
    assert "Traceback" not in err
    eventually(lambda: not [pid for pid in family if lives(pid)], 10)
    had = len(list(read_rows(bench)))
    assert len(read_results(bench)) == had < 8
    assert benched(planned(*tasks, strategies=("full",)), bench).fresh == 8 - had


def test_a_dry_run_makes_nothing(stage, tmp_path):
    (task,) = small_tasks(stage, "one")
    ran = stage.call("bench", *arguments([task], tmp_path / "bench"), "--trials", "24", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("24 trials: 1 task x 24 seeds x 1 model x 1 strategies; 0 trials done\n")
    assert "24 trials of one task can show a difference in success of 0." in ran.stdout
    assert not (tmp_path / "bench").exists()


@pytest.mark.parametrize("key", [None, "sk-none"])
def test_a_paid_plan_prints_its_cost_with_and_without_a_key(stage, tmp_path, key):
    (task,) = small_tasks(stage, "one")
    ran = stage.call(
        "bench", task, "--models", "claude-sonnet-5-5", "--strategies", "full", "-o", tmp_path / "bench", "--dry-run",
        env={"ANTHROPIC_API_KEY": key} if key else {},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "cost of the remaining trials: about $0." in ran.stdout
    assert "assumed until trials have finished: 6,000 prompt tokens" in ran.stdout


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--jobs", "0"], "0 jobs are not possible"),
        (["--engine", "ray"], "no engine 'ray'"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler needs --engine dask"),
        (["--concurrency", "anthropic"], "write it like anthropic=4"),
        (["--total-usd", "-1"], "--total-usd -1 is not possible"),
        (["--trial-seconds", "nan"], "--trial-seconds nan is not possible"),
        (["--keep-traces", "some"], "unknown --keep-traces 'some'"),
        (["--depth", "many"], "--depth is 'many'"),
        (["--horizon", "long"], "--horizon: 'long' is not a list of numbers"),
        (["a.toml", "b.toml"], "only one suite per bench"),
        (["none.toml"], "none.toml cannot be read"),
    ],
)
def test_a_flag_that_cannot_be_is_exit_2_and_one_sentence(stage, tmp_path, more, said):
    (task,) = small_tasks(stage, "one")
    ran = stage.call("bench", *arguments([task], tmp_path / "bench"), *more)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert said in ran.stderr
    assert not (tmp_path / "bench").exists()


def test_a_bench_without_a_task_continues_its_plan_or_reports_missing_parts(stage, tmp_path):
    assert "missing task" in stage.call("bench", "-o", tmp_path / "none").stderr
    assert "pass -o DIR" in stage.call("bench", "calculator").stderr
    benched(planned(*small_tasks(stage, "one"), settings=FAST), tmp_path / "bench")
    assert (
        "continues with its original options" in stage.call("bench", "-o", tmp_path / "bench", "--trials", "9").stderr
    )
