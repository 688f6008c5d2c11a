"""A run is removed with its workspace, unless a fork needs it or a process writes it."""

import json
import os
from pathlib import Path

import pytest

from stackmem import TraceError, UsageError, replay
from stackmem.history.history import share
from stackmem.kept.run_list import remove_run
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
        with pytest.raises(UsageError, match=f"its forks begin with: .*{by.name}"):
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
    with pytest.raises(UsageError, match="its forks begin with: begun"):
        remove_run(run)
