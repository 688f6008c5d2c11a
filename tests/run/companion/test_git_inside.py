"""Which folder a run uses if the named one is inside a work tree, and how its repository is made available."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.core.facts import Event, ToolReturned
from stackmem.core.state import State
from stackmem.history.git import git, user_git_environment
from stackmem.history.inner import InnerRepository, make_repository
from stackmem.history.late_repository import LateRepository
from stackmem.history.origin import Origin
from stackmem.run.companion.git_inside import GIT, place_of, remove_stale_locks
from stackmem.run.opened import Observe
from stackmem.run.prepare import prepare
from stackmem.run.result import RunResult
from stackmem.run.resume import resume
from stackmem.run.solve import solve
from stackmem.run.stored_request import read_request
from stackmem.settings.settings import Settings
from tests.history.folders import folder, repository, run_git
from tests.stage import mounted


def test_a_tracked_folder_is_a_place_in_its_work_tree(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"a/b/c.py": "1\n"})
    root, place, (told,) = place_of(hers / "a" / "b", Settings())
    assert (root, place) == (hers, "a/b")
    assert told.endswith("--git none limits it to the folder")


def test_a_subfolder_is_used_without_its_repository_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


class Held:
    """A slow ``make_repository`` that waits until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        monkeypatch.setattr("stackmem.run.companion.git_inside.make_repository", self._make)

    def _make(self, origin: Origin, *rest: Any) -> InnerRepository:
        assert self.go.wait(60)
        return make_repository(origin, *rest)


def played(hers: Path, replies: str, tmp_path: Path, *, observe: Observe | None = None, **flags: Any) -> RunResult:
    script = tmp_path / "script.yaml"
    script.write_text(replies)
    places = {"runs_dir": tmp_path / "runs", "sandbox_dir": tmp_path / "sandbox", "fsync": "none"}
    prepared = prepare(str(hers), "Look.", {"model": f"script:{script}", **places, **flags}, {}, hers)
    return solve(prepared, {}, observe)


LOOK = """
replies:
  - call: list_files
  - call: run_command
    args: {command: "git log --format=%s; git status --porcelain"}
  - call: pop_frame
    args: {result: done}
"""


@pytest.mark.parametrize("layer", ["copy", "auto"])
def test_a_model_is_asked_and_answered_before_the_history_is_there_and_a_command_finds_it(tmp_path, monkeypatch, layer):
    hers = repository(tmp_path / "hers", {"a.py": "1\n"})
    held = Held(monkeypatch)
    answers = []

    def observe(event: Event, _: State) -> None:
        if isinstance(event, ToolReturned):
            held.go.set()  # the files were listed
            answers.append(event.text)

    result = played(hers, LOOK, tmp_path, observe=observe, layer=layer)
    assert result.outcome == "finished"
    assert answers[0].splitlines()[0] == ".git/"
    assert answers[1] == "start\n[exit 0]"
    assert not list((tmp_path / "sandbox").glob("*/repository.new"))
    assert read_request(tmp_path / "runs" / result.run).git == InnerRepository(
        run_git(hers, "rev-parse", "HEAD").strip(), 1
    )


def test_a_file_tool_that_looks_into_git_waits_for_it(tmp_path, monkeypatch):
    hers = repository(tmp_path / "hers", {"a.py": "1\n"})
    held = Held(monkeypatch)
    threading.Timer(0.2, held.go.set).start()
    answers = []

    def observe(event: Event, _: State) -> None:
        if isinstance(event, ToolReturned):
            answers.append(event.text)

    look = LOOK.replace("call: list_files", "call: read_file\n    args: {path: ./.git/../.git/HEAD}")
    assert played(hers, look, tmp_path, observe=observe).outcome == "finished"
    assert answers[0].startswith("ref: refs/heads/")
    assert answers[1] == "start\n[exit 0]"


def test_a_run_that_needs_no_history_ends_without_it_and_leaves_nothing_of_it(tmp_path, monkeypatch):
    hers = repository(tmp_path / "hers", {"a.py": "1\n"})
    os.mkfifo(tmp_path / "pipe")

    def stuck(*_: Any) -> None:
        git("hash-object", str(tmp_path / "pipe"), cwd=hers, environment=user_git_environment())

    monkeypatch.setattr("stackmem.run.companion.git_inside.make_repository", stuck)
    result = played(hers, "replies:\n  - call: pop_frame\n    args: {result: done}\n", tmp_path)
    assert (result.outcome, result.commits) == ("finished", ())
    assert not [thread for thread in threading.enumerate() if thread.name == "repository"]


@pytest.mark.parametrize("layer", ["copy", pytest.param("auto", marks=mounted)])
def test_a_history_that_cannot_be_had_ends_the_run_at_its_first_command_and_resume_tries_again(
    tmp_path, monkeypatch, layer
):
    hers = repository(tmp_path / "hers", {"a.py": "1\n"})

    def broken(origin: Origin, into: Path, *_: Any) -> None:
        folder(into, {"HEAD": "half of it"})
        raise WorkspaceError("an object is missing")

    with monkeypatch.context() as patch:
        patch.setattr("stackmem.run.companion.git_inside.make_repository", broken)
        result = played(hers, LOOK, tmp_path, layer=layer)
    assert result.outcome == "workspace_error"
    assert "an object is missing; start again with --git none to run without it" in result.failure
    # as left by a kill in the middle of the move
    (half,) = (tmp_path / "sandbox").glob("*/repository/.git" if layer == "auto" else "*/workspace/.git")
    (half / "HEAD").write_text("half of it")
    run = tmp_path / "runs" / result.run
    answers = []

    def observe(event: Event, _: State) -> None:
        if isinstance(event, ToolReturned):
            answers.append(event.text)

    assert resume(run, {}, {}, observe).outcome == "finished"
    assert answers == ["start\n[exit 0]"]
    assert not list((tmp_path / "sandbox").glob("*/repository.new"))


def test_a_slow_history_is_reported(monkeypatch):
    monkeypatch.setattr("stackmem.history.late_repository.SLOW_SECONDS", 0.0)
    told = threading.Event()

    def make() -> InnerRepository:
        assert told.wait(60)
        return InnerRepository("")

    late = LateRepository(make, told.set)
    late.wait()
    assert late.made == InnerRepository("")


@pytest.mark.parametrize("layer", ["copy", "auto"])
def test_a_link_to_git_that_is_looked_through_too_early_hides_nothing_later(tmp_path, monkeypatch, layer):
    hers = repository(tmp_path / "hers", {"a.py": "1\n"})
    (hers / "g").symlink_to(".git")
    held = Held(monkeypatch)
    threading.Timer(0.2, held.go.set).start()
    answers = []

    def observe(event: Event, _: State) -> None:
        if isinstance(event, ToolReturned):
            answers.append(event.text)

    look = LOOK.replace("call: list_files", "call: read_file\n    args: {path: g/HEAD}")
    assert played(hers, look, tmp_path, observe=observe, layer=layer).outcome == "finished"
    assert answers[0].startswith("ref: refs/heads/")
    assert answers[1] == "start\n?? g\n[exit 0]"
