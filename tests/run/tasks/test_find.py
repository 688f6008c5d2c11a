"""Finding a task by name, and the message if it does not exist."""

import pytest

from stackmem.core.errors import UsageError
from stackmem.run.tasks.find import find_task, list_tasks, shipped_tasks

from .folders import make_task

SHIPPED = ["calculator", "ledger_rounding", "provider_map", "split_config"]


def test_a_folder_with_a_task_is_that_task(tmp_path):
    folder = make_task(tmp_path / "somewhere" / "mine")
    assert find_task("somewhere/mine", tmp_path) == folder
    assert find_task(str(folder), tmp_path / "other") == folder


def test_a_shipped_task_is_found_by_its_name(tmp_path):
    assert find_task("calculator", tmp_path) == shipped_tasks() / "calculator"


def test_the_tasks_of_the_working_directory_win_over_those_that_ship(tmp_path):
    own = make_task(tmp_path / "tasks" / "calculator")
    assert find_task("calculator", tmp_path) == own


def test_a_task_folder_wins_over_a_name(tmp_path):
    folder = make_task(tmp_path / "calculator")
    assert find_task("calculator", tmp_path) == folder


def test_a_plain_folder_is_not_a_task(tmp_path):
    (tmp_path / "project").mkdir()
    assert find_task("project", tmp_path) is None
    assert find_task(".", tmp_path) is None


def test_a_name_wins_over_a_plain_folder(tmp_path):
    (tmp_path / "calculator").mkdir()
    assert find_task("calculator", tmp_path) == shipped_tasks() / "calculator"


@pytest.mark.parametrize("name", ["calculater", "nothing/calculater", "calculator.md"])
def test_a_name_almost_right_gets_a_hint(tmp_path, name):
    with pytest.raises(UsageError, match="did you mean 'calculator'"):
        find_task(name, tmp_path)


@pytest.mark.parametrize("name", ["zzzz", "../zzzz", "z" * 5_000, "a\nb", "~nobody-of-that-name/x"])
def test_a_name_of_nothing_lists_the_known_ones(tmp_path, name):
    with pytest.raises(UsageError, match="known: calculator, ledger_rounding"):
        find_task(name, tmp_path)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_invalid_names_are_refused(tmp_path, name):
    with pytest.raises(UsageError, match="stackmem tasks list"):
        find_task(name, tmp_path)


def test_no_name_leads_out_of_the_task_folders(tmp_path):
    make_task(tmp_path / "secret")
    (tmp_path / "cwd" / "tasks").mkdir(parents=True)
    with pytest.raises(UsageError):
        find_task("..", tmp_path / "nowhere")
    assert find_task("../secret", tmp_path / "cwd") == tmp_path / "cwd" / "../secret"  # a path, as the user wrote it


def test_the_list_names_each_task_once(tmp_path):
    own = make_task(tmp_path / "tasks" / "calculator")
    make_task(tmp_path / "tasks" / "another")
    (tmp_path / "tasks" / "no-task").mkdir()
    found = list_tasks(tmp_path)
    assert [path.name for path in found] == sorted([*SHIPPED, "another"])
    assert own in found
