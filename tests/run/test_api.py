"""Tests for the two calls of the Python API that run things."""

import inspect
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

import stackmem
from stackmem import RulesDiffer, State, TraceError, UsageError, evolve, fold, replay, solve
from stackmem.run.companion.find import find_run
from stackmem.run.run_folder import new_run
from tests.stage import TASKS, Stage, command, events, pop, push, rechain, records, shown


def test_solve_observes_every_fact_with_the_state_it_makes(stage: Stage):
    seen = []
    result = stage.solve(stage.task(push(), pop(), pop()), observe=lambda event, state: seen.append((event, state)))
    assert [event for event, _ in seen] == events(result.run_dir)
    state = State()
    for event, after in seen:
        state = evolve(state, event)
        assert state == after
    assert fold(event for event, _ in seen).outcome == "solved"


def test_the_result_is_what_the_runs_folder_keeps(stage: Stage):
    result = stage.solve(stage.task(command("echo x > made"), pop()))
    run = Path(result.run_dir)
    assert json.loads((run / "result.json").read_text("utf-8")) == shown(result)
    assert json.loads((run / "run.json").read_text("utf-8"))["task"] == "Do it."
    assert "+x" in (run / "changes.patch").read_text("utf-8")
    assert result.digest == json.loads((run / "trace.jsonl").read_bytes().splitlines()[-1])["digest"]
    assert run.name.split("-")[1:3] == ["small", "adaptive"]


def test_run_json_is_never_read_by_replay(stage: Stage):
    result = stage.solve(stage.task(pop()))
    (Path(result.run_dir) / "run.json").write_text("nonsense", encoding="utf-8")
    (Path(result.run_dir) / "result.json").unlink()
    assert replay(result.run_dir).outcome == "solved"


def test_a_path_object_and_a_name_are_tasks_alike(stage: Stage):
    task = stage.task(pop())
    given = {"model": "demo", "runs_dir": stage.runs, "sandbox_dir": stage.work}
    assert solve(task, **given).task == solve(str(task), **given).task == "small"


def test_an_unknown_setting_is_a_usage_error_that_names_it(stage: Stage):
    with pytest.raises(UsageError, match="colour"):
        stage.solve(stage.task(pop()), colour="red")
    assert stage.left_behind() == []


@pytest.mark.parametrize("named", ["path", "trace", "id", "prefix", "last"])
def test_a_run_is_named_in_every_way(stage: Stage, named):
    os.environ["STACKMEM_RUNS_DIR"] = str(stage.runs)
    try:
        result = stage.solve(stage.task(pop()))
        spelled = {
            "path": result.run_dir, "trace": f"{result.run_dir}/trace.jsonl", "id": result.run,
            "prefix": result.run[:20], "last": "last",
        }  # fmt: skip
        assert replay(spelled[named]).run == result.run
    finally:
        del os.environ["STACKMEM_RUNS_DIR"]


def test_a_prefix_of_several_runs_is_refused_and_last_is_the_newest(stage: Stage):
    task = stage.task(pop())
    runs = [stage.solve(task).run for _ in range(3)]
    assert find_run("last", stage.runs).name == runs[-1]
    with pytest.raises(UsageError, match="matches 3 runs"):
        find_run(runs[0][:4], stage.runs)


def test_runs_are_found_in_every_place_that_is_looked_at(stage: Stage, tmp_path):
    run = stage.solve(stage.task(pop())).run
    other = tmp_path / "other"
    other.mkdir()
    assert find_run("last", other, stage.runs) == find_run(run[-6:], other, stage.runs) == stage.runs / run
    assert find_run(f"{stage.root}/runs/") == stage.runs / run  # like the folder of a bench trial
    with pytest.raises(UsageError, match=f"in {other} and {stage.runs}; stackmem runs lists the 1 run there"):
        find_run("nothing", other, stage.runs)


def test_last_passes_over_a_run_that_has_no_record_yet(stage: Stage):
    run = stage.solve(stage.task(pop())).run
    begun = new_run(stage.runs, "zz", "stackheap")
    (begun / "trace.jsonl").touch()
    (stage.runs / "notes.txt").touch()
    assert find_run("last", stage.runs).name == run


def test_replay_raises_what_it_documents(stage: Stage):
    result = stage.solve(stage.task(push(), pop(), pop()))
    trace = Path(result.run_dir) / "trace.jsonl"
    kept, whole = records(result.run_dir), trace.read_bytes()
    (Path(result.run_dir) / "signatures.jsonl").unlink()  # they contradict every change below
    rechain(trace, kept[1:])
    with pytest.raises(TraceError):
        replay(result.run_dir)
    rechain(trace, [*kept[:-1]])
    with pytest.raises(TraceError, match="the records in between are lost"):
        replay(result.run_dir)
    (Path(result.run_dir) / "result.json").unlink()
    assert replay(result.run_dir).events == len(kept) - 1
    trace.write_bytes(whole.replace(b"Do it", b"Do id", 1))
    with pytest.raises(TraceError, match="line 1 is broken"):
        replay(result.run_dir)
    trace.unlink()
    with pytest.raises(UsageError):
        replay(result.run_dir)
    assert issubclass(RulesDiffer, stackmem.StackmemError)


def test_the_public_calls_say_what_they_raise():
    for public in (solve, replay):
        assert "Raises:" in inspect.getdoc(public)


def test_no_run_of_a_shipped_task_writes_into_the_task(stage: Stage):
    def listing() -> list[str]:
        return sorted(str(path) for path in (TASKS / "calculator").rglob("*") if "__pycache__" not in path.parts)

    before = listing()
    stage.solve(TASKS / "calculator", model=stage.script(command("rm -rf * && touch x"), pop()))
    assert listing() == before


def test_a_run_under_other_rules_is_reported_as_such(stage: Stage):
    result = stage.solve(stage.task(push(), pop(), pop()))
    first, *others = records(result.run_dir)
    other = replace(first, event=replace(first.event, rules=first.event.rules + 1, system="Other words."))
    rechain(Path(result.run_dir) / "trace.jsonl", [other, *others])
    for name in ("result.json", "signatures.jsonl"):
        (Path(result.run_dir) / name).unlink()  # they describe the old trace
    found = replay(result.run_dir)
    assert (found.same_rules, found.prompts, found.outcome) == (False, 0, "solved")
    ran = stage.run("replay", result.run)
    assert ran.returncode == 0, ran.stderr
    assert "the run was recorded under different rules: texts and prompt digests were not compared" in ran.stdout
