import os

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.tree import remove_tree
from tests.workspace.people import for_everyone


def deep(path, levels):
    path.mkdir()
    fd = os.open(path, os.O_PATH)
    for _ in range(levels):
        os.mkdir("a-level", dir_fd=fd)
        below = os.open("a-level", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


@for_everyone
def test_a_tree_deeper_than_any_path_is_removed(place):
    deep(place / "tree", 3000)
    remove_tree(place / "tree")
    assert os.listdir(place) == []


@for_everyone
def test_a_tree_that_forbids_it_is_removed_all_the_same(place):
    tree = place / "tree"
    (tree / "shut" / "inner").mkdir(parents=True)
    (tree / "shut" / "inner" / "file").touch()
    (tree / "shut" / "inner").chmod(0)
    (tree / "shut").chmod(0o400)
    tree.chmod(0)
    remove_tree(tree)
    assert os.listdir(place) == []


@for_everyone
def test_a_symlink_is_removed_and_what_it_points_to_stays(place):
    (place / "kept").mkdir()
    (place / "kept" / "file").touch()
    (place / "tree").mkdir()
    (place / "tree" / "link").symlink_to(place / "kept")
    (place / "-rf").symlink_to(place / "kept")
    remove_tree(place / "tree")
    remove_tree(place / "-rf")
    remove_tree(place / "never-was")
    assert os.listdir(place) == ["kept"]
    assert os.listdir(place / "kept") == ["file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to create a file that the user cannot remove")
def test_leftover_files_are_an_error_with_a_fix(place, person):
    (place / "tree").mkdir(0o755)
    (place / "tree" / "file").touch()

    def remove():
        with pytest.raises(WorkspaceError, match=r"cannot remove .*ermission denied.*; remove it by hand"):
            remove_tree(place / "tree")

    if person.uid:
        person.runs(remove)
    else:
        remove_tree(place / "tree")
        assert not (place / "tree").exists()
