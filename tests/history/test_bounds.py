"""A workspace that could delay the harness or fill its memory: every scan of it is bounded."""

import os
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.history.git import git, user_git_environment
from stackmem.history.ignored import IgnoreRules
from stackmem.history.origin import find_origin
from stackmem.history.restore import content_of
from stackmem.history.walk import Walk
from tests.history.folders import folder, repository, run_git
from tests.history.test_history import changes, history


def test_rules_of_a_gitignore_that_take_for_ever_are_given_up_and_named(tmp_path):
    deep = "/".join("abcdefghijklmnop")
    work = folder(tmp_path / "w", {".gitignore": "**/" * 24 + "x\n", f"{deep}/file": "f"})
    history(work).snapshot()
    rules = IgnoreRules(tmp_path / "w.git", work, seconds=0.3)
    root = os.open(work, os.O_PATH)
    try:
        walk = Walk(root, {}, set(), set(), rules)
        found = {os.fsdecode(path) for path, _ in walk.files()}
    finally:
        os.close(root)
        rules.close()
    assert found == {".gitignore", f"{deep}/file"}
    assert [(left.path, left.reason[:25]) for left in walk.left_out] == [(".gitignore", "its rules take too long; ")]


def test_a_workspace_that_grows_without_end_is_kept_to_a_limit_and_its_old_files_whole(tmp_path):
    work = folder(tmp_path / "w", {"old": "old", "other": "same"})
    kept = history(work)
    before = kept.snapshot()
    folder(work, {"old": "new", "z/small": "small"})
    for number in range(12):
        with (work / f"y{number:02}").open("wb") as sparse:
            sparse.truncate(60 << 20)
    found = changes(kept, before)
    assert found["old"] == "modified"
    assert "other" not in found
    left = {out.path: out.reason for out in kept.left_out}
    assert sum(name in left for name in (f"y{number:02}" for number in range(12))) == 4
    assert set(left.values()) == {"more than 512 MiB were added"}
    reopened = history(work)
    assert reopened.snapshot() == kept.snapshot()


def test_of_many_files_that_cannot_be_kept_the_first_are_named_and_the_rest_counted(tmp_path):
    work = folder(tmp_path / "w", {})
    kept = history(work, largest_bytes=10)
    before = kept.snapshot()
    folder(work, {f"f{number}": "x" * 11 for number in range(1_200)})
    assert changes(kept, before) == {}
    assert len(kept.left_out) == 1_001
    assert kept.left_out[-1].reason == "200 more, for such reasons"


def test_a_repository_whose_rules_are_a_pipe_is_not_waited_for_without_end(tmp_path: Path):
    source = repository(tmp_path / "p", {"a": "a"})
    os.mkfifo(source / ".gitignore")
    asked = ("ls-files", "--others", "--exclude-standard")
    with pytest.raises(
        WorkspaceError, match=r"not answer within 0\.3 s in .*; make sure that no .gitignore there is a pipe"
    ):
        git(*asked, cwd=source, environment=user_git_environment(), seconds=0.3)


def test_a_pipe_among_the_objects_of_a_repository_or_of_a_store_is_refused_before_git_waits_for_it(tmp_path: Path):
    source = repository(tmp_path / "p", {"a": "a"})
    (name,) = run_git(source, "rev-parse", "HEAD:a").split()
    loose = source / ".git" / "objects" / name[:2] / name[2:]
    assert content_of(source / ".git", name) == b"a"
    moved = (source / ".git").rename(tmp_path / "store")
    (moved / "objects" / name[:2] / name[2:]).unlink()
    os.mkfifo(moved / "objects" / name[:2] / name[2:])
    with pytest.raises(WorkspaceError, match="is not a regular file"):
        content_of(moved, name)
    moved.rename(source / ".git")
    assert not loose.is_file()
    with pytest.raises(UsageError, match="contains a link or a special file"):
        find_origin(source)
