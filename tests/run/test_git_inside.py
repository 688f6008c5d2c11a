"""Which folder a run works on where the one that was named lies in a work tree; and what a killed git leaves."""

import threading
from pathlib import Path

import pytest

from stackmem.errors import WorkspaceError
from stackmem.history.origin import Origin
from stackmem.run.git_inside import GIT, bring, place_of, remove_stale_locks
from stackmem.settings.settings import Settings
from stackmem.workspace.secrets import Scrubber
from tests.history.folders import folder, repository


def test_a_tracked_folder_is_a_place_in_its_work_tree(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"a/b/c.py": "1\n"})
    root, place, (told,) = place_of(hers / "a" / "b", Settings())
    assert (root, place) == (hers, "a/b")
    assert told.endswith("--git none takes the folder alone")


def test_a_folder_stays_by_itself_where_it_is_meant_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hers = repository(tmp_path / "hers", {"a/b.py": "1\n"})
    folder(hers, {"untracked/x.py": "1\n"})
    for place, settings in (
        (hers, Settings()),
        (hers / "untracked", Settings()),
        (hers / ".git", Settings()),
        (hers / "a", Settings(git="none")),
        (hers / "a", Settings(isolation="memory")),
        (tmp_path, Settings()),
        (tmp_path / "nowhere", Settings()),
    ):
        assert place_of(place, settings) == (place, "", ())
    monkeypatch.setenv("HOME", str(hers))
    assert place_of(hers / "a", Settings()) == (hers / "a", "", ())


def test_a_work_tree_that_may_not_be_read_is_told_and_its_folder_is_taken_alone(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"a/b.py": "1\n"})
    (hers / ".git" / "objects" / "info" / "alternates").write_text("/elsewhere\n")
    root, place, (told,) = place_of(hers / "a", Settings())
    assert (root, place) == (hers / "a", "")
    assert "borrows from another one" in told


def test_locks_of_a_killed_git_are_removed_and_no_link_is_followed(tmp_path: Path):
    work = folder(tmp_path / "work", {".git/index.lock": "", ".git/index": ""})
    remove_stale_locks(work)
    assert sorted(path.name for path in (work / GIT).iterdir()) == ["index"]
    theirs = folder(tmp_path / "theirs", {"index.lock": ""})
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / GIT).symlink_to(theirs)
    remove_stale_locks(linked)
    assert (theirs / "index.lock").exists()


def test_a_history_that_takes_long_is_told(tmp_path, monkeypatch):
    said: list[str] = []
    told = threading.Event()

    def slow(*_: object) -> None:
        assert told.wait(30)
        raise WorkspaceError("nothing was made")

    monkeypatch.setattr("stackmem.run.git_inside.make_repository", slow)
    monkeypatch.setattr("stackmem.run.git_inside._SLOW_SECONDS", 0.0)
    hers = Origin(tmp_path, tmp_path, tmp_path, "", "")
    with pytest.raises(WorkspaceError, match="--git none"):
        bring(hers, tmp_path, Scrubber({}), lambda line: (said.append(line), told.set()), shared=False)
    assert said[0].startswith("reading the history of the folder")
