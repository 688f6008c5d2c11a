import os
import stat

import pytest

from stackmem.core.errors import UsageError
from stackmem.run.api import solve
from stackmem.settings.directories import SOURCE, checkout, runs_dir, sandbox_dir
from stackmem.settings.settings import Settings
from stackmem.workspace.isolation.confine import landlock_abi
from stackmem.workspace.isolation.landlock import NEEDED_ABI

NEEDS_LANDLOCK = pytest.mark.skipif(landlock_abi() < NEEDED_ABI, reason="this kernel's Landlock is missing or too old")


@pytest.fixture
def source(tmp_path):
    """A checkout whose code is running."""
    root = tmp_path / "source"
    (root / "stackmem").mkdir(parents=True)
    (root / "stackmem" / "__init__.py").touch()
    (root / "pyproject.toml").write_text('[project]\nname = "stackmem"\n')
    return root


def test_in_a_checkout_runs_and_workspaces_are_in_it_wherever_one_stands(source):
    below = source / "tasks" / "calculator"
    below.mkdir(parents=True)
    assert runs_dir(Settings(), below, {}, source) == source / "runs"
    mounting = Settings(isolation="bubblewrap")
    assert sandbox_dir(mounting, source, {}, source) == source / "sandbox" / "work"
    assert (source / "runs").is_dir()


@NEEDS_LANDLOCK
def test_where_commands_see_the_workspace_at_its_own_place_it_is_not_in_the_checkout(source, tmp_path):
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert runs_dir(Settings(isolation="landlock"), source, environ, source) == source / "runs"
    work = sandbox_dir(Settings(isolation="landlock"), source, environ, source)
    assert work == tmp_path / "state" / "stackmem" / "work"


@NEEDS_LANDLOCK
def test_in_a_checkout_a_task_is_solved_without_mounts_too(tmp_path, home, monkeypatch):
    monkeypatch.chdir(SOURCE)
    result = solve("tasks/calculator", model="demo", isolation="landlock", runs_dir=tmp_path)
    assert (result.outcome, result.failure, result.isolation) == ("solved", "", "landlock")


def test_elsewhere_they_are_in_the_state_directory_and_nobody_elses_business(source, tmp_path):
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": "/nowhere"}
    runs, work = (place(Settings(), tmp_path, environ, source) for place in (runs_dir, sandbox_dir))
    assert (runs, work) == (tmp_path / "state" / "stackmem" / "runs", tmp_path / "state" / "stackmem" / "work")
    assert [stat.S_IMODE(place.stat().st_mode) for place in (runs, work)] == [0o700, 0o700]


@pytest.mark.parametrize("state", [{}, {"XDG_STATE_HOME": "relative"}, {"XDG_STATE_HOME": ""}])
def test_without_a_state_directory_it_is_the_homes(source, tmp_path, state):
    found = runs_dir(Settings(), tmp_path, {"HOME": str(tmp_path), **state}, source)
    assert found == tmp_path / ".local" / "state" / "stackmem" / "runs"


def test_without_a_home_the_flag_is_asked_for(source, tmp_path):
    with pytest.raises(
        UsageError, match="neither XDG_STATE_HOME nor HOME is set, so runs has no place; use --runs-dir DIR"
    ):
        runs_dir(Settings(), tmp_path, {}, source)


def test_a_folder_that_only_looks_like_a_checkout_is_none(source, tmp_path):
    looks = tmp_path / "looks"
    (looks / "stackmem").mkdir(parents=True)
    (looks / "stackmem" / "__init__.py").touch()
    (looks / "pyproject.toml").write_text('[project]\nname = "stackmem"\n')
    assert checkout(looks, source) is None
    assert checkout(source, source) == source


def test_code_that_was_installed_into_some_other_project_is_no_checkout(source):
    (source / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert checkout(source, source) is None
    (source / "pyproject.toml").unlink()
    assert checkout(source, source) is None


def test_the_repository_of_these_tests_is_a_checkout():
    assert checkout(SOURCE / "tests") == SOURCE


def test_folders_that_she_names_hold_over_both(source, tmp_path):
    settings = Settings(runs_dir=tmp_path / "a" / "b", sandbox_dir=tmp_path / "c")
    assert runs_dir(settings, source, {}, source) == tmp_path / "a" / "b"
    assert sandbox_dir(settings, source, {}, source) == tmp_path / "c"


def test_a_folder_that_is_there_keeps_what_is_in_it_and_gets_nothing_more(source, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "old").touch()
    runs_dir(Settings(runs_dir=tmp_path / "runs"), tmp_path, {}, source)
    assert os.listdir(tmp_path / "runs") == ["old"]


@pytest.mark.parametrize("wrong", ["file", "file/below", "/proc/runs", "/dev/null", "loop", "x" * 300, "a\0b"])
def test_a_folder_that_cannot_be_written_to_is_refused_with_the_flag(source, tmp_path, wrong):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for place, name in ((runs_dir, "runs_dir"), (sandbox_dir, "sandbox_dir")):
        with pytest.raises(UsageError, match=rf"cannot be written to \(.+\); use --{name.replace('_', '-')} DIR"):
            place(Settings(**{name: tmp_path / wrong}), tmp_path, {}, source)
