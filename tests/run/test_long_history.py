"""The first command of a run sees the last commits of a long history, and a later one sees all of them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stackmem import replay
from stackmem.core.errors import WorkspaceError
from stackmem.core.facts import Event, ToolReturned
from stackmem.core.state import State
from stackmem.history.inner import InnerRepository, make_repository
from stackmem.history.late_repository import LateRepository, Rest
from stackmem.history.origin import Origin
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.prepare import prepare
from stackmem.run.resume import resume
from stackmem.run.solve import solve
from stackmem.run.stored_request import read_request
from tests.history.folders import repository, run_git
from tests.stage import mounted

LAYERS = pytest.mark.parametrize("layer", ["copy", pytest.param("auto", marks=mounted)])
SECRET = "github_pat_" + "11ABCDEFG0" * 4


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with seven commits, of which the run begins with three. The second contains a secret."""
    root = repository(tmp_path / "origin", {"a.py": "0\n"})
    for number in range(1, 7):
        (root / "a.py").write_text(f"{number}\n")
        (root / "old.txt").write_text(SECRET if number == 1 else "")
        run_git(root, "add", "-A")
        run_git(root, "commit", "-q", "-m", f"commit {number}")
        run_git(root, "tag", f"v{number}")
    return root


class Slow:
    """Holds back the whole history until it is released; the last commits are there immediately."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.fails = threading.Event(), False
        monkeypatch.setattr("stackmem.run.companion.git_inside.FEWER_COMMITS", 2)
        monkeypatch.setattr("stackmem.history.late_repository.GRACE_SECONDS", 0.0)
        monkeypatch.setattr("stackmem.run.companion.git_inside.make_repository", self._make)

    def _make(self, origin: Origin, into: Path, *more: Any) -> InnerRepository:
        if len(more) < 3:  # the whole
            assert self.go.wait(60)
            if self.fails:
                raise WorkspaceError("an object is damaged")
        return make_repository(origin, into, *more)


def script(tmp_path: Path, *commands: str) -> Path:
    calls = [f"  - call: run_command\n    args: {{command: {command!r}}}\n" for command in commands]
    place = tmp_path / "script.yaml"
    place.write_text("replies:\n" + "".join(calls) + "  - call: pop_frame\n    args: {result: done}\n")
    return place


class Answers:
    """Collects the answers of a run, and lets the history arrive after a number of them."""

    def __init__(self, slow: Slow, after: int = 1) -> None:
        self.slow, self.after, self.texts = slow, after, list[str]()

    def __call__(self, event: Event, _: State) -> None:
        if isinstance(event, ToolReturned):
            self.texts.append(event.text)
            if len(self.texts) == self.after:
                self.slow.go.set()
                arrived()


def arrived() -> None:
    """Wait until the thread that creates the repository is done."""
    for thread in threading.enumerate():
        if thread.name == "repository":
            thread.join(60)


def begun(origin: Path, plan: Path, tmp_path: Path, observe: Any, **flags: Any):
    places = {"runs_dir": tmp_path / "runs", "sandbox_dir": tmp_path / "sandbox", "fsync": "none"}
    return solve(prepare(str(origin), "Look.", {"model": f"script:{plan}", **places, **flags}, {}, origin), {}, observe)


LOG = "git log --format=%s"
NOTE = "(git: only the last 3 commits have arrived so far; a later command sees the rest of the history)"
WHOLE = ["commit 6", "commit 5", "commit 4", "commit 3", "commit 2", "commit 1", "start"]


@LAYERS
def test_the_first_command_sees_the_last_commits_and_a_later_one_all(tmp_path, monkeypatch, origin, layer):
    answers = Answers(slow := Slow(monkeypatch))
    plan = script(tmp_path, LOG, f"{LOG}; git status -s", "git tag -l; git show v1:old.txt", "git fsck 2>&1; cat a.py")
    result = begun(origin, plan, tmp_path, answers, layer=layer)
    first, second, third, fourth = answers.texts
    assert first.splitlines() == ["commit 6", "commit 5", "commit 4", NOTE, "[exit 0]"]
    assert second.splitlines() == [*WHOLE, "[exit 0]"]
    assert third.splitlines() == [*(f"v{number}" for number in range(1, 7)), "(withheld)", "[exit 0]"]
    assert fourth.splitlines()[-2:] == ["6", "[exit 0]"]
    assert result.history == ""
    request = read_request(tmp_path / "runs" / result.run)
    assert request.git is not None
    assert (request.git.commits, request.git.shortened, request.git.withheld) == (7, False, 1)
    assert not list((tmp_path / "sandbox").glob("*/repository.rest"))
    assert replay(Path(result.run_dir)).outcome == "finished"
    assert slow.go.is_set()


def test_only_answers_of_commands_that_use_git_mention_it(tmp_path, monkeypatch, origin):
    answers = Answers(Slow(monkeypatch), after=3)
    result = begun(origin, script(tmp_path, "cat a.py", "cat .gitignore", "git rev-parse HEAD~3"), tmp_path, answers)
    assert "(git:" not in answers.texts[0] + answers.texts[1]
    assert answers.texts[2].splitlines()[-2:] == [NOTE, "[exit 128]"]
    assert result.history == "the last 3 commits"


@LAYERS
def test_commits_and_branches_of_the_agent_stay_when_the_rest_arrives(tmp_path, monkeypatch, origin, layer):
    answers = Answers(Slow(monkeypatch))
    work = "git switch -qc work && echo 7 > a.py && git commit -qam mine && git tag mine && git pack-refs --all"
    begun(origin, script(tmp_path, work, f"{LOG}; git branch", "git tag -l; git fsck"), tmp_path, answers, layer=layer)
    assert "[exit 0]" in answers.texts[0]
    assert answers.texts[1].splitlines()[:-1] == ["mine", *WHOLE, "  master", "* work"]
    assert {"mine", "v5", "v1"} <= set(answers.texts[2].splitlines())


@LAYERS
@pytest.mark.parametrize(
    ("attack", "look"),
    [
        ("rm -rf .git/objects/pack; ln -s /tmp .git/objects/pack", "ls -d .git/objects/pack"),
        ("rm -f .git/shallow; ln -s ../theirs .git/shallow; echo theirs > theirs", "cat theirs"),
        ("rm -f .git/packed-refs; mkfifo .git/packed-refs", "ls .git/packed-refs"),
        ("rm -rf .git/*; git init -q .", "git log; test -d .git"),
    ],
)
def test_a_repository_that_the_agent_changed_leads_nowhere(tmp_path, monkeypatch, origin, layer, attack, look):
    answers = Answers(Slow(monkeypatch))
    result = begun(origin, script(tmp_path, attack, "true", look), tmp_path, answers, layer=layer)
    assert result.outcome == "finished"
    assert answers.texts[2].endswith("[exit 0]")
    if "theirs" in look:
        assert answers.texts[2].splitlines()[0] == "theirs"


def test_a_history_that_cannot_be_completed_does_not_end_the_run(tmp_path, monkeypatch, origin):
    answers = Answers(slow := Slow(monkeypatch))
    slow.fails = True
    result = begun(origin, script(tmp_path, LOG, LOG), tmp_path, answers)
    assert (result.outcome, result.history) == ("finished", "the last 3 commits")
    assert answers.texts[1].splitlines() == ["commit 6", "commit 5", "commit 4", "[exit 0]"]


@LAYERS
def test_a_fork_while_it_arrives_gets_all_of_it(tmp_path, monkeypatch, origin, layer):
    answers = Answers(slow := Slow(monkeypatch), after=9)
    threading.Timer(0.5, slow.go.set).start()
    result = begun(origin, script(tmp_path, "true", LOG, LOG), tmp_path, answers, layer=layer)
    later = Answers(slow)
    child = fork(Path(result.run_dir), 1, ForkChanges(), {}, later)
    assert child.result.outcome == "finished"
    assert later.texts[-1].splitlines() == [*WHOLE, "[exit 0]"]


DIES = """
import os, signal, sys, threading
from pathlib import Path
import stackmem.history.late_repository as late, stackmem.run.companion.git_inside as inside
from stackmem.core.facts import ToolReturned
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
late.GRACE_SECONDS, inside.FEWER_COMMITS = 0.0, 2
mode, origin, places = sys.argv[1], sys.argv[2], sys.argv[3]
make, replace, add = inside.make_repository, os.rename, inside.add_history
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
go = threading.Event()
def whole(source, into, *more):
    if len(more) < 3:
        go.wait(60)
        if mode == "building":
            made = make(source, into, *more)
            kill()
    return make(source, into, *more)
inside.make_repository = whole
if mode == "added":
    def added(*all):
        add(*all)
        kill()
    inside.add_history = added
def observe(event, state):
    if isinstance(event, ToolReturned):
        if mode == "command":
            kill()
        go.set()
        for thread in threading.enumerate():
            if thread.name == "repository":
                thread.join(60)
        if mode == "half":
            import stackmem.history.following.arriving as arriving
            arriving._with_missing = lambda *_: kill()
flags = {"model": f"script:{places}/script.yaml", "runs_dir": f"{places}/runs", "sandbox_dir": f"{places}/sandbox"}
solve(prepare(origin, "Look.", {**flags, "layer": sys.argv[4]}, {}, Path(origin)), {}, observe)
"""


@LAYERS
@pytest.mark.parametrize("mode", ["command", "building", "half", "added"])
def test_a_kill_while_it_arrives_loses_nothing(tmp_path, monkeypatch, origin, layer, mode):
    mine = "echo 7 > a.py && git commit -qam mine"
    script(tmp_path, mine, LOG, LOG)
    died = subprocess.run(
        [sys.executable, "-c", DIES, mode, str(origin), str(tmp_path), layer], check=False, timeout=100
    )
    assert died.returncode == -signal.SIGKILL
    (run,) = (tmp_path / "runs").iterdir()
    (tmp_path / "sandbox").mkdir(exist_ok=True)
    answers = Answers(slow := Slow(monkeypatch))
    slow.go.set()
    assert resume(run, {}, dict(os.environ), answers).outcome == "finished"
    assert answers.texts[-1].splitlines() == ["mine", *WHOLE, "[exit 0]"]
    assert not list((tmp_path / "sandbox").glob("*/repository.rest"))


def test_the_first_command_waits_a_little_for_the_whole(monkeypatch):
    monkeypatch.setattr("stackmem.history.late_repository.GRACE_SECONDS", 60.0)
    added, told = list[InnerRepository](), list[str]()
    whole = InnerRepository("c", 9)

    def build() -> InnerRepository:
        time.sleep(0.2)
        return whole

    late = LateRepository(lambda: InnerRepository("c", 3, shortened=True), bool, Rest(build, added.append, told.append))
    assert late.wait() == ""
    assert (late.made, added, told) == (whole, [whole], [])


def test_a_lock_in_the_repository_lets_a_later_command_add_the_rest(monkeypatch):
    monkeypatch.setattr("stackmem.history.late_repository.GRACE_SECONDS", 60.0)
    tries = list[int]()

    def add(_: InnerRepository) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise FileExistsError("packed-refs.lock")

    rest = Rest(lambda: InnerRepository("c", 9), add, lambda _: None)
    late = LateRepository(lambda: InnerRepository("c", 3, shortened=True), bool, rest)
    late.wait()
    assert late.made == InnerRepository("c", 3, shortened=True)
    late.wait()
    assert (len(tries), late.made) == (2, InnerRepository("c", 9))
