"""The list of runs stays current: finished runs are read once, changing runs are reread."""

import shutil

import pytest

from stackmem.review.kept.run_index import RunIndex
from stackmem.review.kept.run_list import list_runs
from stackmem.trace.lock import Lock
from tests.stage import pop


@pytest.fixture
def runs(stage):
    task = stage.task(pop())
    for _ in range(3):
        stage.solve(task)
    return stage.runs


def test_it_says_what_the_list_says(runs):
    index = RunIndex(runs)
    index.refresh()
    assert sorted(index.rows.values(), key=lambda row: row.run) == list_runs(runs)
    assert index.unread == 0


def test_nothing_is_new_while_nothing_changes(runs):
    index = RunIndex(runs)
    index.refresh()
    version = index.version
    index.refresh()
    assert index.version == version


def test_resumed_and_removed_runs_are_noticed(runs):
    index = RunIndex(runs)
    index.refresh()
    version, folder = index.version, min(runs.iterdir())
    lock = Lock(folder / "trace.jsonl")
    index.refresh()
    assert index.version > version
    assert index.rows[folder.name].outcome == "running"
    lock.close()
    index.refresh()
    assert index.rows[folder.name].outcome == "solved"
    shutil.rmtree(folder)
    index.refresh()
    assert len(index.rows) == 2
    assert index.folder_of(folder.name) is None


def test_only_what_is_listed_has_a_folder(runs):
    index = RunIndex(runs)
    index.refresh()
    name = min(runs.iterdir()).name
    assert index.folder_of(name) == runs / name
    for path in ("", ".", "..", f"../{runs.name}/{name}", f"{name}/", f"./{name}", "/etc", "\0"):
        assert index.folder_of(path) is None


def test_the_runs_of_a_bench_stand_one_folder_deeper(runs, tmp_path):
    (tmp_path / "bench").mkdir()
    shutil.move(runs, tmp_path / "bench" / runs.name)
    index = RunIndex(tmp_path / "bench", nested=True)
    index.refresh()
    assert {name.partition("/")[0] for name in index.rows} == {runs.name}
    assert len(index.rows) == 3


def test_a_missing_folder_has_no_runs(tmp_path):
    for nested in (False, True):
        index = RunIndex(tmp_path / "gone", nested=nested)
        index.refresh()
        assert index.rows == {}
