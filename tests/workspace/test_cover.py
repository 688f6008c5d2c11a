"""Files hidden in a folder that commands see, and whose variables the sandbox itself never uses."""

import os
from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.isolation.cover import places_to_cover
from stackmem.workspace.profile import Mount
from tests.workspace.sandboxes import BUBBLEWRAP, CONFINED, CONTAINED, SECRET, hostile, outside, sh


def _toolchain(place: Path) -> Path:
    folder = place / "toolchain"
    (folder / "lib" / "tasks" / "tests").mkdir(parents=True)
    (folder / "lib" / "tasks" / "tests" / "answer").write_text(SECRET)
    (folder / "lib" / "module").write_text("open to all")
    return folder


@hostile(*CONTAINED, documented=("landlock", "none"))
def test_hidden_tests_below_a_granted_folder_are_not_there(place, level, opened):
    folder = _toolchain(place)
    granted = Mount(str(folder), str(folder))
    both = (folder / "lib" / "tasks", folder / "lib" / "tasks" / "tests")
    with opened(place, level, mounts=(granted,), hidden=both) as workspace:
        hidden = folder / "lib" / "tasks"
        done = sh(workspace, f"cat {folder}/lib/module; ls -A {hidden}; cat {hidden}/tests/*; echo x >{hidden}/new")
        undone = sh(workspace, f"umount {hidden}; cat {hidden}/tests/answer")
    assert "open to all" in done.text
    assert SECRET not in done.text + undone.text
    assert os.listdir(hidden) == ["tests"]


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_a_hidden_folder_that_is_granted_itself_is_seen(place, level, opened):
    folder = _toolchain(place)
    tests = Mount(str(folder / "lib" / "tasks" / "tests"), "/tests")
    with opened(place, level, mounts=(tests,), hidden=(folder / "lib" / "tasks" / "tests",)) as workspace:
        assert SECRET in sh(workspace, f"cat {workspace.place(tests)}/answer").text


@hostile(*CONTAINED, moot=("landlock", "none"))
def test_tests_that_a_command_is_given_are_there_for_it_also_below_a_granted_folder(place, level, opened):
    folder = _toolchain(place)
    hidden = folder / "lib" / "tasks"
    mounts = (Mount(str(folder), str(folder)), Mount(str(hidden / "tests"), "/tests"))
    with opened(place, level, mounts=mounts, hidden=(hidden,)) as workspace:
        assert SECRET in sh(workspace, f"cat {workspace.place(mounts[1])}/answer").text


def test_links_on_the_way_do_not_uncover(tmp_path):
    folder = _toolchain(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    hidden = tmp_path / "link" / "lib" / "tasks"
    assert places_to_cover([hidden], [(str(tmp_path / "link"), "/opt/t")]) == ["/opt/t/lib/tasks"]
    assert places_to_cover([hidden, tmp_path / "missing"], [("/usr", "/usr")]) == []


def test_of_hidden_folders_in_one_another_the_outer_one_is_covered(tmp_path):
    folder = _toolchain(tmp_path)
    hidden = [folder / "lib" / "tasks" / "tests", folder / "lib", folder / "lib" / "tasks"]
    shown = [(str(folder), "/t"), (str(folder / "lib"), "/t/lib")]
    assert places_to_cover(hidden, shown) == ["/t/lib"]
    assert places_to_cover(hidden, shown[:1], [folder / "lib" / "module"]) == ["/t/lib/tasks"]


@hostile(*CONFINED, moot=("none",))
def test_variables_of_a_command_do_not_steer_the_programs_that_make_its_sandbox(place, level, opened):
    there = outside(place)
    steering = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{there}/loaded"}
    with opened(place, level, env=steering) as workspace:
        said = sh(workspace, 'echo "to $LD_DEBUG_OUTPUT"').text
    assert f"to {there}/loaded" in said
    assert os.listdir(there) == ["file"]


@hostile(*BUBBLEWRAP, moot=("namespaces", "landlock", "none"))
def test_a_variable_cannot_add_words_to_the_sandbox(place, level, opened):
    with opened(place, level, env={"A": "\0--bind\0/\0/mnt"}) as workspace, pytest.raises(WorkspaceError, match="NUL"):
        sh(workspace, "true")
