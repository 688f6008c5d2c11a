"""The agent's git follows the user's: HEAD, the index and interrupted operations, as of each request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doors.following.test_following import LAYERS, Talk
from tests.history.folders import folder, repository, run_git
from tests.run.people import replayed
from tests.stage import Stage, command

BASE = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
LOOK = "git status -sb; git log --format=%s -3; git diff --cached --stat | tail -1"


def mine(stage: Stage) -> Path:
    root = repository(Path(stage.root) / "mine", {"a.txt": BASE, "b.txt": "b\n"})
    run_git(root, "branch", "-M", "main")
    return root


def commit(root: Path, subject: str, **files: str) -> None:
    folder(root, {f"{name}.txt": text for name, text in files.items()})
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", subject)


def fails(root: Path, *arguments: str) -> None:
    assert subprocess.run(["git", *arguments], cwd=root, check=False, capture_output=True).returncode != 0


def says(text: str) -> dict[str, str]:
    return {"text": text}


def talked(stage: Stage, layer: str, first: str, act: Callable[[], object], *later: str) -> Talk:
    """Return a conversation with one command, then something that the user does, then more commands."""
    replies: list[Any] = [command(first), says("one")]
    for each in later:
        replies += [command(each), says("more")]
    talk = Talk(stage, {}, *replies, layer=layer)

    def second() -> str:
        act()
        return "two"

    talk.say("one", second, *["more"] * (len(later) - 1))
    assert replayed(talk.result)
    return talk


@LAYERS
def test_a_commit_and_a_pull_between_two_requests(stage: Stage, layer: str):
    root = mine(stage)
    other = Path(stage.root) / "other"
    run_git(Path(stage.root), "clone", "-q", str(root), str(other))
    commit(other, "theirs", c="c\n")
    run_git(other, "tag", "v1")

    def pulls() -> None:
        run_git(root, "pull", "-q", "--tags", str(other), "main")
        commit(root, "mine", d="d\n")

    talk = talked(stage, layer, LOOK, pulls, f"{LOOK}; git tag; git fsck 2>&1; git show HEAD~1:c.txt")
    head = run_git(root, "rev-parse", "HEAD")[:10]
    assert talk.news()[0] == f"the repository's HEAD is now {head} on main"
    assert talk.shown()[1].splitlines()[:5] == ["## main", "mine", "theirs", "start", "v1"]
    assert talk.shown()[1].splitlines()[-2:] == ["c", "[exit 0]"]
    assert talk.result.commits == ()


@LAYERS
def test_a_branch_switch_and_a_detached_head(stage: Stage, layer: str):
    root = mine(stage)
    run_git(root, "switch", "-q", "-c", "side/one")
    commit(root, "on the side", a=BASE.replace("3", "three"))
    run_git(root, "switch", "-q", "main")

    def switches() -> None:
        run_git(root, "switch", "-q", "side/one")

    talk = talked(stage, layer, LOOK, switches, f"{LOOK}; git branch")
    assert talk.shown()[1].splitlines() == ["## side/one", "on the side", "start", "  main", "* side/one", "[exit 0]"]
    assert "commits" not in " ".join(talk.news())

    talk = Talk(stage, {}, command(LOOK), says("x"), command(LOOK), says("x"), layer=layer)

    def detaches() -> str:
        run_git(root, "switch", "-q", "--detach", "main")
        return "two"

    talk.say("one", detaches)
    assert talk.shown()[1].splitlines() == ["## HEAD (no branch)", "start", "[exit 0]"]


@LAYERS
def test_a_new_branch_at_the_same_commit(stage: Stage, layer: str):
    root = mine(stage)
    talk = talked(stage, layer, LOOK, lambda: run_git(root, "switch", "-q", "-c", "next"), LOOK)
    assert talk.shown()[1].splitlines() == ["## next", "start", "[exit 0]"]


@LAYERS
def test_staged_hunks_between_two_requests(stage: Stage, layer: str):
    root = mine(stage)

    def stages() -> None:
        folder(root, {"a.txt": BASE.replace("1", "staged"), "n.txt": "announced\n"})
        run_git(root, "add", "a.txt")
        run_git(root, "add", "-N", "n.txt")
        folder(root, {"a.txt": BASE.replace("1", "staged").replace("9", "later")})

    talk = talked(stage, layer, LOOK, stages, "git status -s; git diff | grep '^[+-][a-z0-9]'", "git status -s")
    assert "the user has staged a.txt, n.txt" in talk.news()
    shown = talk.shown()[1].splitlines()
    assert shown == ["MM a.txt", " A n.txt", "-9", "+later", "+announced", "[exit 0]"]
    assert talk.shown()[2].splitlines() == ["MM a.txt", " A n.txt", "[exit 0]"]
    assert len([line for line in talk.news() if "staged" in line]) == 1


@LAYERS
@pytest.mark.parametrize("how", ["merge", "rebase", "cherry-pick"])
def test_an_operation_that_stops_between_two_requests(stage: Stage, layer: str, how: str):
    root = mine(stage)
    run_git(root, "switch", "-q", "-c", "topic")
    commit(root, "topic", a=BASE.replace("1", "topic"))
    run_git(root, "switch", "-q", "main")
    commit(root, "main", a=BASE.replace("1", "main"))
    goes_on = f"git status; echo both > a.txt; git add a.txt; git -c core.editor=true {how} --continue"
    talk = talked(stage, layer, LOOK, lambda: fails(root, how, "topic"), goes_on, LOOK)
    assert f"the user is in the middle of a {how}, with a.txt in the index" in talk.news()
    assert "both modified:   a.txt" in talk.shown()[1]
    assert talk.shown()[2].splitlines()[0] == "## main"
    assert "topic" in talk.shown()[2].splitlines()
    assert "both modified" in run_git(root, "status")  # the user's operation still waits

    def gives_up() -> str:
        run_git(root, how, "--abort")
        return "go on"

    talk = Talk(stage, {}, command("git status"), says("x"), command("git status"), says("x"), layer=layer)
    talk.say("one", gives_up)
    assert "both modified:   a.txt" in talk.shown()[0]
    assert "nothing to commit" in talk.shown()[1]
    assert "the user has nothing staged or interrupted in git any more" in talk.news()


@LAYERS
def test_commits_of_the_agent_stay_on_a_branch(stage: Stage, layer: str):
    root = mine(stage)
    works = "echo agent > g.txt && git add g.txt && git commit -qm agent && git rev-parse HEAD"
    talk = talked(
        stage, layer, works, lambda: commit(root, "user", c="c\n"), f"{LOOK}; git branch; git log --all --format=%s"
    )
    own = talk.shown()[0][:10]
    line = f"your own commits are on the branch agent-{own}, because git in your workspace follows the user's"
    assert line in talk.news()
    shown = talk.shown()[1].splitlines()
    assert shown[:2] == ["## main", "?? g.txt"]
    assert f"  agent-{own}" in shown
    assert "agent" in shown
    assert [line.partition(" ")[2] for line in talk.result.commits] == ["agent"]


@LAYERS
def test_what_the_user_stages_does_not_disturb_commits_of_the_agent(stage: Stage, layer: str):
    root = mine(stage)

    def stages() -> None:
        folder(root, {"b.txt": "staged\n"})
        run_git(root, "add", "b.txt")

    works = "echo agent > a.txt && git commit -qam agent"
    talk = talked(stage, layer, works, stages, "git status -s; git log -1 --format=%s")
    assert "the user has staged b.txt; your git is as before, because you have made commits" in talk.news()
    assert talk.shown()[1].splitlines() == [" M b.txt", "agent", "[exit 0]"]


@LAYERS
@pytest.mark.parametrize(
    "attack",
    [
        "rm -rf .git/refs; ln -s ../outside .git/refs",
        "rm -f .git/HEAD; ln -s ../outside/HEAD .git/HEAD",
        "rm -f .git/index; mkfifo .git/index",
        "rm -rf .git/refs/heads/main .git/packed-refs; mkdir -p .git/refs/heads/main/x; touch .git/refs/heads/main/x/y",
        "touch .git/index.lock",
        "rm -rf .git/*",
    ],
)
def test_a_repository_that_the_agent_broke_leads_nowhere_and_ends_nothing(stage: Stage, layer: str, attack: str):
    root = mine(stage)
    folder(root, {"outside/HEAD": "theirs\n"})
    commit(root, "with a folder")
    before = run_git(root, "rev-parse", "HEAD")
    talk = talked(stage, layer, attack, lambda: commit(root, "user", c="c\n"), "cat outside/HEAD c.txt")
    assert talk.shown()[1].splitlines() == ["theirs", "c", "[exit 0]"]
    assert run_git(root, "rev-parse", "HEAD~1") == before
    assert run_git(root, "status", "--porcelain") == ""


DIES = """
import os, signal, sys
from pathlib import Path
from stackmem.doors.following import git_following
from stackmem.run.opened import Person
from stackmem.run.ports import Left
from stackmem.run.resume import resume
sys.path.insert(0, sys.argv[1])
from tests.run.people import replayed
from tests.doors.following.test_following import User
move, add = git_following.move_head, git_following.add_history
def killed(*all):
    if sys.argv[3] == "moved":
        move(*all)
    os.kill(os.getpid(), signal.SIGKILL)
git_following.move_head = killed
resume(Path(sys.argv[2]), {}, os.environ, person=Person(port=User("two")))
"""


@LAYERS
@pytest.mark.parametrize("when", ["before", "moved"])
def test_a_kill_while_it_follows_loses_nothing(stage: Stage, layer: str, when: str):
    root = mine(stage)
    works = "echo agent > g.txt && git add g.txt && git commit -qm agent"
    look = "git log --all --format=%s; git status -sb"
    talk = Talk(stage, {}, command(works), says("one"), command(look), says("two"), layer=layer)
    talk.say("one")
    commit(root, "user", c="c\n")
    arguments = [str(Path(__file__).parents[2]), str(talk.run_dir), when]
    died = subprocess.run([sys.executable, "-c", DIES, *arguments], check=False, timeout=100, env=dict(os.environ))
    assert died.returncode == -signal.SIGKILL
    talk.say()  # the request was recorded already
    shown = talk.shown()[1].splitlines()
    assert sorted(shown[:3]) == ["agent", "start", "user"]
    assert shown[3:] == ["## main", "?? g.txt", "[exit 0]"]
    assert not list(stage.work.glob("*/repository.follow"))
