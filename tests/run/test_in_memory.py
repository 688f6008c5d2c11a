"""In-memory runs write only their own records to the disk, and support every operation on a run."""

import os
from pathlib import Path

import pytest

from stackmem import UsageError, WorkspaceError, replay
from stackmem.core.facts import ChecksReturned, ModelReplied, RunForked, RunResumed, RunStarted, ToolReturned
from stackmem.formats.tasks.check import check_task
from stackmem.lab.worlds import WORLDS, make
from stackmem.review.replays.live import replay_live
from stackmem.review.replays.model import replay_model
from stackmem.run.fork import ForkChanges, fork
from stackmem.trace.open_run import Run
from tests.run.killed import resumed
from tests.stage import Stage, call, events, pop, records


@pytest.fixture
def world(stage: Stage) -> Path:
    return make("moving_target", 7, 12, 0.2, stage.root / "task")


def solved(stage: Stage, world: Path, **settings):
    return stage.solve(world, isolation="memory", **settings)


@pytest.mark.parametrize("family", WORLDS)
def test_every_family_is_solved_by_its_demo_in_as_many_steps_as_it_says(stage: Stage, family: str):
    result = solved(stage, make(family, 1, 20, 1.0, stage.root / "task"), strategy="full")
    assert (result.outcome, result.steps, result.isolation) == ("solved", 20, "memory")
    assert replay(result.run_dir).prompts == 20


def test_nothing_but_the_records_is_written(stage: Stage, world: Path):
    before = sorted((path, path.stat().st_mtime_ns) for path in world.rglob("*"))
    result = solved(stage, world)
    assert sorted(path.name for path in Path(result.run_dir).iterdir()) == [
        "request.json", "result.json", "run.json", "signatures.jsonl", "trace.jsonl",
    ]  # fmt: skip
    assert not list(stage.work.iterdir())
    assert sorted((path, path.stat().st_mtime_ns) for path in world.rglob("*")) == before
    assert events(result.run_dir, RunStarted)[0].tree == ""
    assert result.workspace == ""


def test_a_run_that_fails_its_check_is_unsolved_and_the_check_says_why(stage: Stage, world: Path):
    result = solved(stage, world, model=stage.script(pop("I give up.")))
    assert result.outcome == "unsolved"
    (verdict,) = events(result.run_dir, ChecksReturned)
    assert verdict.rewards == {"reward": 0.0}
    assert "0 of 7 units were done with the values that held; unit 1 was not done" in verdict.text


def test_two_runs_are_the_same_but_for_time_and_share_no_files(stage: Stage, world: Path):
    script = stage.script(call("write_file", path="notes.md", content="mine\n"), call("list_files"), pop())
    one, other = (solved(stage, world, model=script) for _ in range(2))
    assert events(one.run_dir) == events(other.run_dir)
    assert events(other.run_dir, ToolReturned)[0].text == "wrote 5 bytes to 'notes.md'; it is new"


def test_a_task_that_is_no_world_is_refused_and_so_is_a_check_of_ones_own(stage: Stage, world: Path):
    with pytest.raises(UsageError, match=r"memory only runs worlds .* and calculator is not one; omit --isolation"):
        solved(stage, "calculator")
    with pytest.raises(UsageError, match="--check runs a command, which is not possible in memory"):
        solved(stage, world, check="true")
    (stage.root / "mine").mkdir()
    with pytest.raises(UsageError, match="memory only runs worlds"):
        stage.solve(stage.root / "mine", "do it", isolation="memory", model="human")
    assert stage.left_behind() == []


def test_the_check_of_a_task_is_not_run_in_memory(stage: Stage, world: Path):
    with pytest.raises(UsageError, match="which is not possible in memory; omit --isolation"):
        list(check_task(str(world), "memory", stage.elsewhere))


def test_a_world_of_another_version_is_refused(stage: Stage, world: Path):
    program = world / "environment" / "workspace" / "work"
    program.write_text(program.read_text() + "\n# older\n")
    with pytest.raises(UsageError, match="was created by another version of stackmem; create it again"):
        solved(stage, world)


def test_a_run_ended_by_a_limit_resumes_with_rebuilt_files(stage: Stage, world: Path):
    whole = solved(stage, world)
    first = solved(stage, world, max_steps=6)
    assert first.ending == "limit:steps"
    again = resumed(Path(first.run_dir), max_steps="+50").result
    assert (again.outcome, again.steps) == ("solved", whole.steps)
    assert replay(first.run_dir).outcome == "solved"
    assert events(first.run_dir, ToolReturned) == events(whole.run_dir, ToolReturned)


@pytest.mark.parametrize("kind", [ModelReplied, ToolReturned])
def test_a_run_killed_anywhere_resumes_without_a_difference(stage: Stage, world: Path, kind: type):
    whole = solved(stage, world)
    places = [number for number, record in enumerate(records(whole.run_dir), 1) if isinstance(record.event, kind)]
    for at in places[::3]:
        killed = Path(solved(stage, world).run_dir)
        trace = killed / "trace.jsonl"
        trace.write_bytes(b"".join(trace.read_bytes().splitlines(keepends=True)[:at]))
        (killed / "result.json").unlink()
        result = resumed(killed).result
        assert result.outcome == "solved"
        again = [event for event in events(killed) if not isinstance(event, RunResumed)]
        assert [event for event in again if not isinstance(event, RunStarted)] == events(whole.run_dir)[1:]


def test_a_run_goes_on_in_memory_or_on_a_disk_throughout(stage: Stage, world: Path):
    first = solved(stage, world, max_steps=6)
    with pytest.raises(UsageError, match="files stay either in memory or on disk"):
        resumed(Path(first.run_dir), max_steps="+50", isolation="none")
    with pytest.raises(UsageError, match="files stay either in memory or on disk"):
        fork(Path(first.run_dir), 3, ForkChanges(isolation="none"), os.environ)


def test_a_fork_starts_from_the_files_of_its_step(stage: Stage, world: Path):
    whole = solved(stage, world)
    for at in (0, 4, 9):
        forked = fork(Path(whole.run_dir), at, ForkChanges(), os.environ)
        assert forked.result.outcome == "solved"
        assert events(forked.result.run_dir, RunForked)
        assert replay(forked.result.run_dir).outcome == "solved"
    again = fork(Path(forked.result.run_dir), 10, ForkChanges(), os.environ)
    assert again.result.outcome == "solved"


def test_calls_and_replies_are_played_again_and_give_the_same(stage: Stage, world: Path):
    run = Path(solved(stage, world).run_dir)
    live = replay_live(Run(run), os.environ, 5)
    assert (live.difference, live.isolation) == ("", "memory")
    assert live.calls == 7
    rerun = replay_model(Run(run), os.environ, 5)
    assert (rerun.difference, rerun.outcome) == ("", "solved")


def test_a_run_whose_world_has_changed_is_not_taken_up(stage: Stage, world: Path):
    first = solved(stage, world, max_steps=6)
    config = world / "environment" / "workspace" / "config" / "gateway.conf"
    config.write_text(config.read_text().replace("gateway", "gatevay"))
    os.utime(world / "environment" / "workspace" / ".work" / "plan")
    with pytest.raises(WorkspaceError, match="files cannot be rebuilt: at step 2 "):
        resumed(Path(first.run_dir), max_steps="+50")
