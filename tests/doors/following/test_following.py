"""A conversation and its folder: the user's changes reach the agent, and nothing of either is lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import FolderChanged, ToolReturned
from stackmem.core.person_facts import PersonSteppedIn, PersonStopped, SessionRules
from stackmem.doors.chat.committing import apply_order
from stackmem.doors.following import inventory, taking_in
from stackmem.doors.following.inventory import Entry, Inventory, take_inventory, take_settled
from stackmem.history.ignored import IgnoreRules
from stackmem.run.ending import apply_run
from stackmem.run.fork import ForkChanges, fork, requests_of
from stackmem.run.opened import Person
from stackmem.run.ports import Left
from stackmem.run.prepare import prepare
from stackmem.run.resume import resume
from stackmem.run.solve import solve
from stackmem.trace.open_run import Run
from tests.history.folders import folder, holds, repository, run_git
from tests.run.people import replayed
from tests.stage import Stage, call, command, events, records

LINES = [f"{number}\n" for number in range(1, 10)]
DAY = "".join(LINES)


def says(text: str) -> dict[str, str]:
    return {"text": text}


def edited(**lines: str) -> str:
    """Return the day's text with other lines: ``_3="x"`` replaces the third."""
    return "".join(lines.get(f"_{number}", text.strip()) + "\n" for number, text in enumerate(LINES, 1))


class User:
    """A user who does something before each request; a request is a text, or a function that returns one.

    ``edits`` are done while the agent works, each before the first look after so many answers of tools.
    """

    def __init__(self, *requests: str | Callable[[], str], edits: Mapping[int, Callable[[], object]] = {}) -> None:
        self.requests, self.edits = list(requests), dict(edits)
        self.run_dir = Path()

    def attend(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def request(self) -> str:
        if not self.requests:
            raise Left
        request = self.requests.pop(0)
        return request if isinstance(request, str) else request()

    def answer(self, asked: Any) -> str | None:
        raise Left

    def decide(self, asked: Any) -> Any:
        raise Left

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        if self.edits and (edit := self.edits.pop(len(events(self.run_dir, ToolReturned)), None)):
            edit()
        return None


class Talk:
    """A conversation about the folder ``mine``, which the user leaves and takes up again."""

    def __init__(self, stage: Stage, files: dict[str, str], *replies: Any, layer: str = "auto") -> None:
        self.mine = Path(stage.root) / "mine"
        if not self.mine.exists():
            folder(self.mine, dict(files))
        flags = {
            "model": stage.script(*replies), "runs_dir": str(stage.runs), "sandbox_dir": str(stage.work),
            "fsync": "none", "network": "none", "layer": layer,
        }  # fmt: skip
        self._prepared = prepare(str(self.mine), None, flags, os.environ, Path.cwd(), SessionRules())
        self.run_dir = Path()

    def say(self, *requests: str | Callable[[], str], edits: Mapping[int, Callable[[], object]] = {}) -> None:
        user = User(*requests, edits=edits)
        if self.run_dir == Path():
            self.result = solve(self._prepared, os.environ, person=user)
        else:
            resumed = resume(self.run_dir, {}, os.environ, person=Person(port=user)).result
            assert resumed is not None
            self.result = resumed
        self.run_dir = user.run_dir
        assert self.result.ending == "left", self.result

    def undo(self, count: int = 1) -> None:
        found = requests_of(Run(self.run_dir).records())[-count]
        user = User()
        fork(self.run_dir, 0, ForkChanges(), os.environ, person=user, record=found[0])
        self.run_dir = user.run_dir

    def news(self) -> list[str]:
        return [line for event in events(self.run_dir, FolderChanged) for line in event.changes]

    def shown(self) -> list[str]:
        """The results of the commands so far."""
        return [record.event.text for record in records(self.run_dir) if type(record.event).__name__ == "ToolReturned"]


LAYERS = pytest.mark.parametrize("layer", ["auto", "copy"])


@LAYERS
def test_edits_within_a_request_reach_its_next_command(stage: Stage, layer: str):
    talk = Talk(
        stage, {"a": DAY, "gone": "1\n"}, call("write_file", path="a", content=edited(_2="agent")),
        command("cat a b; ls"), command("true"), says("One."), says("Two."), layer=layer,
    )  # fmt: skip

    def edit() -> None:
        folder(talk.mine, {"a": edited(_5="mine", _6="mine"), "b": "b\n"})
        (talk.mine / "gone").unlink()

    talk.say("first", "second", edits={1: edit})
    assert sorted(talk.news()) == [
        "the user added b", "the user changed a, lines 5 to 6; it is merged with your changes", "the user deleted gone",
    ]  # fmt: skip
    assert talk.shown()[1] == edited(_2="agent", _5="mine", _6="mine") + "b\na\nb\n[exit 0]"
    assert replayed(talk.result)
    apply_run(talk.run_dir)
    assert holds(talk.mine) == {"a": edited(_2="agent", _5="mine", _6="mine").encode(), "b": b"b\n"}


def test_a_file_that_changes_all_the_time_is_told_three_times_in_a_request(stage: Stage):
    talk = Talk(stage, {"log": "0\n"}, *[command("true")] * 6, says("One."), says("Two."))
    edits = {n: partial(folder, talk.mine, {"log": f"{n}\n"}) for n in range(1, 6)}
    talk.say("first", "second", edits=edits)
    told = ["the user changed log, line 1"]
    assert talk.news() == ["the user changed log", *told * 2, "more changes of log come with the next request", *told]


def test_the_branch_is_followed_with_the_next_request_and_its_files_with_the_next_step(stage: Stage):
    mine = repository(Path(stage.root) / "mine", {"a": DAY})
    talk = Talk(stage, {}, command("git branch --show-current"), command("git branch --show-current; cat a"),
                says("One."), command("git branch --show-current"), says("Two."))  # fmt: skip

    def switch() -> None:
        run_git(mine, "checkout", "-q", "-b", "side")
        folder(mine, {"a": "side\n"})
        run_git(mine, "commit", "-q", "-am", "more")

    talk.say("first", "second", edits={1: switch})
    news = talk.news()
    assert news[0] == "the user changed a, line 1"
    assert [line for line in news if "HEAD is now" in line] == [news[1]]
    assert [text.split()[0] for text in talk.shown()] == ["master", "master", "side"]
    assert talk.shown()[1].startswith("master\nside\n")


def test_a_step_without_changes_only_lists_the_folder(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    mine = repository(Path(stage.root) / "mine", {"a": DAY, ".gitignore": "*.out\n"})
    looks: list[str] = []
    for name in ("find_origin", "without_ignored"):
        original = getattr(taking_in, name)
        monkeypatch.setattr(taking_in, name, lambda *given, f=original, n=name: looks.append(n) or f(*given))
    monkeypatch.setattr(inventory, "IgnoreRules", lambda *given: looks.append("git") or IgnoreRules(*given))
    talk = Talk(stage, {}, *[command("true")] * 4, says("One."))
    talk.say("first", edits={1: partial(folder, mine, {"x.out": "1"})})
    assert (looks.count("find_origin"), looks.count("git")) == (1, 1)


def test_a_file_that_is_being_written_is_left_for_the_next_look(tmp_path: Path):
    """An editor truncates a file before it writes it. The agent must not read of the empty file."""
    mine = folder(tmp_path / "mine", {"a": DAY, "b": DAY})
    before = Inventory({path: Entry(key) for path, key in take_inventory(mine, (), ()).items()})
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            (mine / "a").write_text("1")
            time.sleep(0.005)

    (mine / "b").write_text("2")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        keys = take_settled(mine, (), (), before).keys
    finally:
        stopped.set()
        writer.join()
    assert (keys[b"a"] == before.files[b"a"].key, keys[b"b"] == before.files[b"b"].key) == (True, False)
    after = take_settled(mine, (), (), before).keys
    assert after[b"a"] != before.files[b"a"].key
    os.utime(mine / "b", (2**32, 2**32))  # a clock that jumped: it is not waited for
    assert take_settled(mine, (), (), before).keys[b"b"] != before.files[b"b"].key


def test_a_file_that_vanishes_for_a_moment_was_not_deleted(tmp_path: Path):
    mine = folder(tmp_path / "mine", {"a": DAY})
    before = Inventory({path: Entry(key) for path, key in take_inventory(mine, (), ()).items()})
    (mine / "a").rename(tmp_path / "elsewhere")
    back = threading.Timer(0.03, (tmp_path / "elsewhere").rename, [mine / "a"])
    back.start()
    keys = take_settled(mine, (), (), before).keys
    back.join()
    assert keys.keys() == {b"a"}


@LAYERS
def test_after_an_apply_the_file_is_the_folders_again(stage: Stage, layer: str):
    """Regression test: later edits of the user were invisible, and each later apply was refused."""
    talk = Talk(
        stage, {"a": DAY}, call("write_file", path="a", content=edited(_2="agent")), says("One."),
        command("cat a"), call("edit_file", path="a", old_string="9", new_string="nine"), says("Two."), layer=layer,
    )  # fmt: skip
    talk.say("first")
    assert apply_run(talk.run_dir).changed == ("a",)

    def edit() -> str:
        folder(talk.mine, {"a": edited(_2="agent", _5="mine")})
        return "second"

    talk.say(edit)
    assert talk.news() == ["the user changed a, line 5"]
    assert talk.shown()[1].startswith(edited(_2="agent", _5="mine").strip())
    assert apply_run(talk.run_dir).describe() == f"applied to {talk.mine}: 1 file"
    assert (talk.mine / "a").read_text() == edited(_2="agent", _5="mine", _9="nine")
    assert replayed(talk.result)


@LAYERS
def test_a_file_that_both_changed_is_merged_and_a_conflict_is_marked(stage: Stage, layer: str):
    talk = Talk(
        stage, {"a": DAY, "b": DAY, "c": "c\n", "d": "d\n"},
        command("sed -i 's/^2$/agent/' a b; echo agent > c; rm d; echo new > n"), says("One."),
        command("cat a; cat b; cat c; ls"), says("Two."), layer=layer,
    )  # fmt: skip
    talk.say("first")

    def edit() -> str:
        folder(talk.mine, {"a": edited(_8="mine"), "b": edited(_2="mine"), "d": "mine\n", "e": "e\n"})
        (talk.mine / "c").unlink()
        return "second"

    talk.say(edit)
    assert talk.news() == [
        "the user changed a, line 8; it is merged with your changes",
        "the user changed b, line 2; you had changed the same lines, so resolve the conflict markers in it",
        "the user deleted c; you had changed it, so your workspace keeps it",
        "the user changed d, line 1; you had deleted it, so it is back",
        "the user added e",
    ]
    shown = talk.shown()[-1]
    assert edited(_2="agent", _8="mine") in shown
    assert "<<<<<<< the agent's version\nagent\n" in shown
    assert "=======\nmine\n>>>>>>> the version in your folder\n" in shown
    brought = apply_run(talk.run_dir)
    assert brought.done.conflicts == ("b",)
    assert holds(talk.mine) == {
        "a": edited(_2="agent", _8="mine").encode(), "b": edited(_2="mine").encode(), "c": b"agent\n",
        "d": b"mine\n", "e": b"e\n", "n": b"new\n",
    }  # fmt: skip


@LAYERS
def test_an_undo_never_takes_back_the_users_own_edits(stage: Stage, layer: str):
    talk = Talk(
        stage, {"a": DAY}, call("write_file", path="a", content=edited(_2="agent")), says("One."),
        command("true"), says("Two."), layer=layer,
    )  # fmt: skip
    talk.say("first")
    apply_run(talk.run_dir)

    def edit() -> str:
        folder(talk.mine, {"a": edited(_2="agent", _8="mine")})
        return "second"

    talk.say(edit)
    talk.undo(2)
    apply_run(talk.run_dir)
    assert (talk.mine / "a").read_text() == edited(_8="mine")
    talk.say("third")
    assert talk.news() == []
    assert f"it had {len(edited(_8='mine'))} bytes" in talk.shown()[-1]  # the first reply is given again


def test_commits_and_branches_are_told_and_ignored_files_are_not(stage: Stage):
    mine = repository(Path(stage.root) / "mine", {"a": DAY, "b": "b\n", ".gitignore": "*.log\n"})
    talk = Talk(stage, {}, says("One."), command("cat a new; ls"), says("Two."))

    def edit() -> str:
        folder(mine, {"a": edited(_3="x", _4="y"), "new": "new\n", "x.log": "log\n"})
        (mine / "b").unlink()
        run_git(mine, "checkout", "-q", "-b", "side")
        run_git(mine, "commit", "-q", "-am", "more")
        return "second"

    talk.say("first", edit)
    head = run_git(mine, "rev-parse", "HEAD").strip()[:10]
    assert talk.news() == [
        f"the repository's HEAD is now {head} on side", "the user changed a, lines 3 to 4", "the user deleted b",
        "the user added new",
    ]  # fmt: skip
    assert talk.shown()[-1].startswith(edited(_3="x", _4="y") + "new\n")


def test_a_chunk_about_a_changed_file_is_stale(stage: Stage):
    talk = Talk(
        stage, {"a": DAY}, call("heap_alloc", name="about-a", content="nine lines", source="a"), says("One."),
        says("Two."),
    )  # fmt: skip

    def edit() -> str:
        folder(talk.mine, {"a": "mine\n"})
        return "second"

    talk.say("first", edit)
    event = events(talk.run_dir, FolderChanged)[0]
    assert event.digests.keys() == {"a"}
    state = Run(talk.run_dir).state
    chunk = state.heap.chunks["about-a"]
    assert state.heap.current["a"] != chunk.digest


def test_a_file_that_cannot_be_merged_keeps_both_versions(stage: Stage):
    talk = Talk(stage, {"a": "a\0"}, command("printf 'agent\\0' > a"), says("One."), command("ls"), says("Two."))

    def edit() -> str:
        folder(talk.mine, {"a": "mine\0"})
        return "second"

    talk.say("first", edit)
    assert talk.shown()[-1].split()[:2] == ["a", "a.agent-version"]
    apply_run(talk.run_dir)
    assert holds(talk.mine) == {"a": b"mine\0", "a.agent-version": b"agent\0"}


@LAYERS
def test_uncommitted_work_that_the_agent_discarded_is_spared_until_the_user_agrees(stage: Stage, layer: str):
    tracked = {"edited": "1\n", "clean": "1\n", "removed": "1\n", ".gitignore": "*.db\n"}
    mine = repository(Path(stage.root) / "mine", dict(tracked))
    folder(mine, {"edited": "mine\n", "removed": "mine\n", "notes": "mine\n", "x.db": "mine\n"})
    talk = Talk(
        stage, {}, command("echo made > made; echo more >> notes"), says("One."),
        command("printf '1\\n' > edited; printf '1\\n' > removed; rm -f notes x.db later clean made; echo 2 > new"),
        says("Two."), layer=layer,
    )  # fmt: skip
    talk.say("first")
    assert apply_run(talk.run_dir).done.changed == ("made", "notes")

    def edit() -> str:
        folder(mine, {"later": "mine\n"})
        return "second"

    talk.say(edit)
    brought = apply_run(talk.run_dir)
    assert brought.changed == ("clean", "made", "new")
    assert brought.done.spared == ("edited", "later", "notes", "removed")
    assert brought.not_applied.startswith("applying would delete or revert your uncommitted work in edited, later, ")
    assert (mine / "later").read_text() == (mine / "x.db").read_text() == (mine / "edited").read_text() == "mine\n"
    assert apply_run(talk.run_dir).done.spared == brought.done.spared
    assert apply_run(talk.run_dir, ("later", "edited"), may_lose=True).changed == ("edited", "later")
    assert apply_run(talk.run_dir, may_lose=True).changed == ("notes", "removed")
    assert apply_run(talk.run_dir).summary.startswith("already applied")


def test_an_undo_of_what_was_applied_is_not_a_loss(stage: Stage):
    mine = repository(Path(stage.root) / "mine", {"a": DAY})
    folder(mine, {"b": "mine\n"})
    talk = Talk(stage, {}, command("echo agent > a; echo agent > b; echo agent > new"), says("One."), says("Two."))
    talk.say("first")
    apply_run(talk.run_dir)
    talk.undo()
    assert apply_run(talk.run_dir).changed == ("a", "b", "new")
    assert holds(mine) == {"a": DAY.encode(), "b": b"mine\n"}


def test_without_a_repository_a_deletion_is_applied(stage: Stage):
    talk = Talk(stage, {"a": "mine"}, command("rm a"), says("One."))
    talk.say("first")
    assert apply_run(talk.run_dir).changed == ("a",)
    assert holds(talk.mine) == {}


def test_solve_that_applies_spares_uncommitted_work_unless_the_user_passed_yes(stage: Stage):
    mine = repository(Path(stage.root) / "mine", {"a": "a\n"})
    for flags in ([], ["--yes"]):
        folder(mine, {"notes": "mine\n"})
        model = stage.script(command("rm notes; echo new > a$RANDOM"), call("pop_frame", result="Done."))
        ran = stage.call("solve", str(mine), "-t", "Do it.", "--model", model, "--apply", "--network", "none", *flags)
        assert (ran.returncode, (mine / "notes").exists()) == ((0, False) if flags else (2, True)), ran.stderr
        assert flags or "your uncommitted work in notes" in ran.stderr
    again = stage.call("apply", "last", "--yes")
    assert again.returncode == 0, again.stderr


@LAYERS
def test_chosen_hunks_are_applied_and_the_others_stay_with_the_agent(stage: Stage, layer: str):
    long = "".join(f"{number}\n" for number in range(1, 41))
    agents = long.replace("\n2\n", "\ntwo\n").replace("\n20\n", "\ntwenty\n").replace("\n40\n", "\nforty")
    talk = Talk(
        stage, {"a": long, "b": "b\n", "z": long}, call("write_file", path="a", content=agents),
        command("rm b; echo new > n; cp a z"), says("One."), command("cat a; ls"), says("Two."), layer=layer,
    )  # fmt: skip
    talk.say("first")

    def answers(*keys: str) -> Callable[[str, str], str | None]:
        left = iter(keys)
        return lambda _text, _question: next(left)

    assert apply_order(talk.run_dir, "-p", answers("y", "?", "n", "y", "n", "y", "d")) == [
        f"applied to {talk.mine}: 2 files"
    ]
    partly = long.replace("\n2\n", "\ntwo\n").replace("\n40\n", "\nforty")
    assert holds(talk.mine) == {"a": partly.encode(), "b": b"b\n", "n": b"new\n", "z": long.encode()}
    talk.say("second")
    assert talk.news() == []
    assert talk.shown()[-1].startswith(agents)
    assert replayed(talk.result)
    assert apply_order(talk.run_dir, "-p a", answers("q")) == ["nothing was chosen, so nothing is applied"]
    assert apply_order(talk.run_dir, "-p z", answers("a")) == [f"applied to {talk.mine}: 1 file"]
    apply_run(talk.run_dir)
    assert holds(talk.mine) == {"a": agents.encode(), "n": b"new\n", "z": agents.encode()}
    with pytest.raises(UsageError, match="needs a terminal"):
        apply_order(talk.run_dir, "-p")


@LAYERS
def test_packages_that_apply_does_not_bring_are_named(stage: Stage, layer: str):
    site = ".venv/lib/python3/site-packages"
    files = {".gitignore": "node_modules\n.venv\n", "node_modules/old/index.js": "1", f"{site}/six.py": "1"}
    install = f"mkdir -p {site}/new-1.0.dist-info web/node_modules/left-pad; touch {site}/new-1.0.dist-info/METADATA"
    talk = Talk(
        stage, files, command(f"{install}; echo 1 > web/node_modules/left-pad/index.js; echo 1 > a"), says("One."),
        layer=layer,
    )  # fmt: skip
    talk.say("first")
    named = "apply does not bring installed packages, which the run may need"
    assert f"web/node_modules ({named}: left-pad)" in talk.result.not_kept
    if layer == "auto":  # a copy uses the folder's own packages, which it cannot change
        assert f".venv ({named}: new-1.0)" in talk.result.not_kept
    assert not any("old" in line or "six" in line for line in talk.result.not_kept)
