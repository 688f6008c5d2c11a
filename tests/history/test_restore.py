"""Restoring a workspace: tracked files are as before, ignored files are untouched and reported if they changed."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.history.history import History
from stackmem.history.restore import restore
from tests.history.folders import folder, holds

FILES = {
    "plain": b"1\r\n", "tool": "#!/bin/sh\n", "link": "->plain", "dir/in": b"\0\xff", "dir/deep/er": b"x",
    os.fsdecode(b"\xff\xfe"): b"odd", "a\nb": b"line",
}  # fmt: skip


def back(kept: History, work: Path, tree: str, since: float | None = None) -> tuple[str, ...]:
    return restore(kept, work.parent / f"{work.name}.git", work, tree, time.time() if since is None else since)


@pytest.fixture
def work(tmp_path):
    return folder(tmp_path / "w", FILES)


@pytest.fixture
def kept(work):
    return History(work.parent / "w.git", work)


def test_whatever_was_done_is_undone_byte_for_byte(work, kept):
    tree, before = kept.snapshot(), holds(work)
    (work / "plain").write_bytes(b"2")
    (work / "tool").chmod(0o644)
    (work / "link").unlink()
    (work / "link").symlink_to("/etc/passwd")
    (work / "dir" / "in").unlink()
    (work / "dir" / "deep" / "er").unlink()
    (work / "dir" / "deep").rmdir()
    (work / "dir" / "deep").write_text("a file where a folder was")
    folder(work, {"new/folder/file": b"n", "plain2": "->plain"})
    assert back(kept, work, tree) == ()
    assert holds(work) == before
    assert not (work / "new").exists()
    assert kept.snapshot() == tree


def test_a_folder_in_place_of_a_file_is_replaced(work, kept):
    tree, before = kept.snapshot(), holds(work)
    (work / "plain").unlink()
    folder(work, {"plain/now/a/folder": b"f"})
    assert back(kept, work, tree) == ()
    assert holds(work) == before


def test_nothing_changed_is_nothing_done(work, kept):
    tree = kept.snapshot()
    times = {path: path.lstat().st_mtime_ns for path in work.rglob("*")}
    assert back(kept, work, tree) == ()
    assert {path: path.lstat().st_mtime_ns for path in work.rglob("*")} == times


def test_ignored_files_stay_and_are_reported_if_changed(work, kept):
    folder(work, {".gitignore": b"*.log\nbuild/\n"})
    kept.snapshot()
    folder(work, {"old.log": b"old", "build/old": b"old"})
    tree = kept.snapshot()
    time.sleep(0.05)
    since = time.time()
    time.sleep(0.05)
    folder(work, {"new.log": b"new", "build/old": b"newer", "kept": b"gone again", "__pycache__/c": b"c"})
    assert back(kept, work, tree, since) == ("build/old", "new.log")
    assert (work / "build" / "old").read_bytes() == b"newer"
    assert (work / "old.log").exists()
    assert (work / "__pycache__" / "c").exists()
    assert not (work / "kept").exists()


def test_empty_folders_that_were_made_since_are_gone_and_older_ones_stay(work, kept):
    (work / "older").mkdir()
    tree = kept.snapshot()
    time.sleep(0.05)
    since = time.time()
    time.sleep(0.05)
    (work / "newer" / "and" / "deeper").mkdir(parents=True)
    assert back(kept, work, tree, since) == ()
    assert (work / "older").is_dir()
    assert not (work / "newer").exists()


def test_the_empty_folders_of_a_repository_stay(work, kept):
    tree = kept.snapshot()
    (work / ".git" / "refs" / "heads").mkdir(parents=True)
    assert back(kept, work, tree, since=time.time() - 60) == ()
    assert (work / ".git" / "refs" / "heads").is_dir()


def test_a_link_to_a_folder_outside_is_never_followed(work, kept, tmp_path):
    outside = folder(tmp_path / "outside", {"in": b"precious", "deep/er": b"precious"})
    tree, before = kept.snapshot(), holds(work)
    for name in ("in", "deep/er"):
        (work / "dir" / name).unlink()
    (work / "dir" / "deep").rmdir()
    (work / "dir").rmdir()
    (work / "dir").symlink_to(outside)
    assert back(kept, work, tree) == ()
    assert holds(work) == before
    assert holds(outside) == {"in": b"precious", "deep/er": b"precious"}


def test_a_file_that_became_too_large_is_reported_and_left(work):
    kept = History(work.parent / "w.git", work, largest_bytes=1_000)
    tree = kept.snapshot()
    (work / "plain").write_bytes(b"x" * 2_000)
    assert back(kept, work, tree) == ("plain",)
    assert (work / "plain").stat().st_size == 2_000


def test_a_deep_tree_of_folders_that_are_not_kept_ends(work, kept):
    tree = kept.snapshot()
    at = os.open(work, os.O_RDONLY)
    for _ in range(700):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    assert back(kept, work, tree, time.time() + 60) == ()


def test_a_tree_that_the_history_does_not_hold_is_an_error_and_changes_nothing(work, kept):
    kept.snapshot()
    before = holds(work)
    with pytest.raises(WorkspaceError):
        back(kept, work, "1" * 40)
    assert holds(work) == before


@pytest.mark.parametrize("count", [3, 200])
def test_syncing_happens_once_and_changes_nothing(tmp_path, count):
    work = folder(tmp_path / "many", {f"{number}/{number}": b"%d" % number for number in range(count)})
    kept = History(tmp_path / "many.git", work)
    tree = kept.snapshot()
    kept.sync()
    kept.sync()
    assert History(tmp_path / "many.git", work).snapshot() == tree


def test_a_store_that_went_away_cannot_be_forced_to_the_disk(work, kept):
    kept.snapshot()
    subprocess.run(["rm", "-rf", work.parent / "w.git"], check=True)
    with pytest.raises(WorkspaceError, match="No such file"):
        kept.sync()
