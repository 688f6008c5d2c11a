"""A run is removed with its workspace, unless a fork needs it or a process writes it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from stackmem import TraceError, UsageError, replay
from stackmem.history.history import share
from stackmem.review.kept.removal import Pruned, prune, remove_run
from stackmem.run.fork import ForkChanges, fork
from stackmem.trace.lock import Lock
from tests.stage import Stage, command, pop


@pytest.fixture
def run(stage: Stage) -> Path:
    return Path(stage.solve(stage.task(command("echo x > made"), pop())).run_dir)


def test_a_run_goes_with_its_workspace(stage: Stage, run):
    remove_run(run)
    assert stage.left_behind() == []


def test_a_run_with_forks_is_kept_until_they_are_gone(stage: Stage, run):
    child = Path(fork(run, 1, ForkChanges(), os.environ).result.run_dir)
    grandchild = Path(fork(child, 1, ForkChanges(), os.environ).result.run_dir)
    for held, by in ((run, child), (child, grandchild)):
        with pytest.raises(UsageError, match=f"forks need the records of .*{by.name}"):
            remove_run(held)
    assert replay(grandchild).outcome == "solved"
    for one in (grandchild, child, run):
        remove_run(one)
    assert stage.left_behind() == []


def test_a_run_that_a_process_writes_is_kept(run):
    lock = Lock(run / "trace.jsonl")
    with pytest.raises(TraceError, match="is writing the run"):
        remove_run(run)
    lock.close()
    assert (run / "trace.jsonl").exists()


@pytest.mark.parametrize("named", ["elsewhere", "elsewhere/workspace", "."])
def test_a_request_that_names_another_folder_as_its_workspace_removes_nothing_there(stage: Stage, run, named):
    place = stage.root / named
    (stage.root / "elsewhere" / "workspace").mkdir()
    request = json.loads((run / "request.json").read_text())
    (run / "request.json").write_text(json.dumps({**request, "workspace": str(place)}))
    remove_run(run)
    assert (stage.root / "elsewhere" / "workspace").is_dir()
    assert not run.exists()


def test_a_run_without_a_request_goes_alone(stage: Stage, run):
    (run / "request.json").unlink()
    remove_run(run)
    assert not run.exists()
    assert len(stage.left_behind()) == 1


def test_a_run_whose_files_a_fork_reads_is_kept_before_the_forks_first_record(run):
    child = run.parent / "begun"
    share(run / "history.git", child / "history.git", "")
    with pytest.raises(UsageError, match=r"forks need the records of .*: begun"):
        remove_run(run)


def pruned(stage: Stage, **more) -> dict[str, Pruned]:
    """Return every removed run by name, regardless of age."""
    return {row.run: row for row in prune(stage.runs, 0.0, 0, **{"dry_run": False, **more})}


def test_a_parent_goes_with_its_forks_and_stays_with_the_youngest_of_them(stage: Stage, run):
    child = Path(fork(run, 1, ForkChanges(), os.environ).result.run_dir)
    kept = list(prune(stage.runs, 0.0, 1, dry_run=False))
    assert [(row.run, row.reason) for row in kept] == [(run.name, f"its fork {child.name} needs its records")]
    assert list(pruned(stage, dry_run=True)) == [child.name, run.name]
    assert all(row.removed for row in pruned(stage).values())
    assert stage.left_behind() == []


def test_other_folders_and_other_users_runs_are_left_and_reported(stage: Stage, run, tmp_path):
    shutil.copytree(run, tmp_path / "far")
    (stage.runs / "linked").symlink_to(tmp_path / "far")
    for name in ("fifo", "notes"):
        (stage.runs / name).mkdir()
    os.mkfifo(stage.runs / "fifo" / "trace.jsonl")
    lock = Lock(run / "trace.jsonl")
    left = {name: row.reason for name, row in pruned(stage).items()}
    lock.close()
    assert left == {
        "linked": "linked is a link or a special file",
        "fifo": "trace.jsonl is a link or a special file",
        run.name: "a process is writing it",
    }


@pytest.mark.parametrize("name", ["result.json", "request.json", "history.git/objects/info/alternates"])
def test_a_fifo_in_a_run_does_not_block(stage: Stage, run, name):
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    assert pruned(stage)[run.name].removed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_run_is_left(stage: Stage, run):
    os.chown(run, 12_345, 12_345)
    assert pruned(stage)[run.name].reason == f"{run.name} belongs to another user"


def test_removing_a_copied_run_keeps_the_workspace(stage: Stage, run, tmp_path):
    shutil.copytree(run, tmp_path / "copies" / run.name)
    (row,) = prune(tmp_path / "copies", 0.0, 0, dry_run=False)
    assert row.removed
    assert (stage.work / run.name / "workspace").is_dir()


def test_a_folder_without_a_runs_name_is_not_a_workspace(stage: Stage, run):
    (stage.root / "mine" / "workspace").mkdir(parents=True)
    hostile = run.rename(stage.runs / "mine")
    request = json.loads((hostile / "request.json").read_text())
    (hostile / "request.json").write_text(json.dumps({**request, "workspace": str(stage.root / "mine" / "workspace")}))
    assert pruned(stage)["mine"].removed
    assert (stage.root / "mine" / "workspace").is_dir()


def test_an_interrupted_removal_is_completed_next_time(stage: Stage, run):
    (stage.root / "bin").mkdir()
    (stage.root / "bin" / "rm").write_text("#!/bin/sh\nkill -9 $PPID\n")
    (stage.root / "bin" / "rm").chmod(0o755)
    killed = stage.run("runs", "rm", run.name, env={"PATH": f"{stage.root / 'bin'}:{os.environ['PATH']}"})
    assert killed.returncode == -9
    assert stage.call("runs").stdout == f"no matching runs in {stage.runs}\n"
    assert [row.run for row in pruned(stage, dry_run=True).values()] == [run.name]
    assert pruned(stage)[run.name].removed
    assert stage.left_behind() == []
