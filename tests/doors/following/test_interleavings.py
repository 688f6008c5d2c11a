"""Interleavings of agent and user on one folder, with an oracle: nothing is lost, and only overlaps are blocked.

A file has five slots with constant lines between them, so edits of two slots never touch. The oracle merges slot by
slot. All 40 run in campaigns (``STACKMEM_CAMPAIGN=1``). ``INTERLEAVINGS=200`` sets another number. Each is also played
with a kill -9 at a random moment of its steps, after which a new process repeats the step.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stackmem import Record
from stackmem.core.facts import FolderChanged, RunForked
from stackmem.core.person_facts import SessionRules
from stackmem.core.state import Session, State
from stackmem.doors.following.common import FollowedFolder
from stackmem.doors.following.taking_in import Follower
from stackmem.history.following.merging import has_conflict
from stackmem.history.history import History, share
from stackmem.run.ending import Brought, Kept, apply_run
from stackmem.run.run_folder import CHANGES, HISTORY, PATCH
from stackmem.run.stored_request import StoredRequest, write_request
from stackmem.trace.store import write_line
from tests.build import started
from tests.history.folders import folder, holds, run_git

NAMES = ("a", "b", "d/c")
SLOTS = 5
Slots = tuple[str, ...]
Files = dict[str, Slots]
START: Files = dict.fromkeys(NAMES, tuple(f"slot {number}" for number in range(SLOTS)))
_COUNT = int(os.environ.get("INTERLEAVINGS", "40" if os.environ.get("STACKMEM_CAMPAIGN") else "5"))

SEEDS = sorted({*range(_COUNT), 22})
"""Seed 22 is a regression test: a file that was not applied was no longer followed."""


def text(slots: Slots) -> str:
    return "".join(f"{slot}\n--\n==\n--\n" for slot in slots)


def merged(base: Slots, ours: Slots, theirs: Slots) -> tuple[Slots, bool]:
    """Return the merge, in which ``theirs`` wins a conflict, and whether there is one."""
    slots = [own if other == old else other for old, own, other in zip(base, ours, theirs, strict=True)]
    rows = zip(base, ours, theirs, strict=True)
    return tuple(slots), any(own not in (old, other) and other != old for old, own, other in rows)


class Scene:
    """A conversation without a model, and the expected files.

    Attributes:
        mine: Expected content of the user's folder.
        agents: Expected content of the workspace.
        common: The last content that both had.
        taken: The user's changes so far, as versions before and after.
        head: The files of the last commit.
        branches: The files of the branches that the user has left.
    """

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root, self.dice = root, dice
        self.folder = folder(root / "mine", {name: text(slots) for name, slots in START.items()})
        run_git(self.folder, "init", "-q", "-b", "one")
        self.mine, self.agents, self.common = dict(START), dict(START), dict(START)
        self.taken: list[tuple[Files, Files]] = []
        self.moments: list[tuple[str, Files, int]] = []
        self.branches: dict[str, Files] = {}
        self.branch, self.other_branch = "one", "two"
        self.requests = self.steps = self.edits = 0
        self.was_killed = False
        self.head: Files = {}
        self.begun = ""
        self._begin("run0", "", START, 0)

    def _begin(self, name: str, parent: str, at: Files, number: int) -> None:
        self.run, self.work = self.root / "runs" / name, self.root / "work" / name
        self.run.mkdir(parents=True)
        folder(self.work, {path: text(slots) for path, slots in at.items()})
        line = b""
        if parent:
            line, _ = write_line(Record(2, 0.0, RunForked(parent, 1, "0" * 64, started())), "")
            share(self.root / "runs" / parent / HISTORY, self.run / HISTORY, self.begun)
        (self.run / "trace.jsonl").write_bytes(line)
        write_request(StoredRequest(str(self.folder), "Do it.", {}, str(self.root), str(self.work)), self.run)
        self.history = History(self.run / HISTORY, self.work)
        self.begun = self.begun or self.history.snapshot()
        self.number = number
        place = FollowedFolder(self.folder, self.run, self.work, self.history, (), (), False)
        self.follower = Follower(place, lambda _: "")

    def _look(self, *, working: bool) -> FolderChanged | None:
        session = Session(SessionRules(), requests=self.requests, working=working)
        start = started(tree=self.begun)
        event = self.follower.changed(State(start=start, session=session, folder=self.number, step=self.steps))
        if event is not None:
            self.number = event.number
        return event

    def _slot(self) -> tuple[str, int, str]:
        self.edits += 1
        return self.dice.choice(NAMES), self.dice.randrange(SLOTS), f"{self.edits}"

    def agent_edits(self) -> None:
        name, slot, mark = self._slot()
        slots = list(self.agents[name])
        slots[slot] = f"agent {mark}"
        self.agents[name] = tuple(slots)
        folder(self.work, {name: text(self.agents[name])})

    def user_edits(self) -> None:
        name, slot, mark = self._slot()
        slots = list(self.mine[name])
        slots[slot] = f"user {mark}"
        self._write(name, tuple(slots))

    def user_formats(self) -> None:
        name = self.dice.choice(NAMES)
        self._write(name, tuple(slot.upper() for slot in self.mine[name]))

    def user_restores(self) -> None:
        name = self.dice.choice(NAMES)
        self._write(name, START[name])

    def user_commits(self) -> None:
        self.head = dict(self.mine)
        run_git(self.folder, "add", "-A")
        run_git(self.folder, "commit", "-q", "--allow-empty", "-m", "work")

    def user_switches_branch(self) -> None:
        """Commit and check out the other branch, whose files replace the present ones."""
        self.user_commits()
        self.branches[self.branch] = dict(self.mine)
        self.branch, self.other_branch = self.other_branch, self.branch
        run_git(self.folder, "checkout", "-q", *([] if self.branch in self.branches else ["-b"]), self.branch)
        self.mine = dict(self.branches.get(self.branch, self.mine))
        self.head = dict(self.mine)

    def _write(self, name: str, slots: Slots) -> None:
        self.mine[name] = slots
        folder(self.folder, {name: text(slots)})

    def request(self) -> None:
        """Begin a request: the user's changes are taken in, and the agent resolves conflicts in the user's favor."""
        self.requests += 1
        self._take_in()
        self.moments.append((self.run.name, dict(self.agents), self.number))

    def step(self) -> None:
        """Go on with the request: the user's changes since its last step are taken in."""
        self.steps += 1
        self._take_in()

    def _take_in(self) -> None:
        self._look(working=True)
        before, after = {}, {}
        for name in NAMES:
            if self.mine[name] != self.common[name]:
                before[name], after[name] = self.common[name], self.mine[name]
                self._merge(name, before[name], after[name])
                self.common[name] = self.mine[name]
        if before:
            self.taken.append((before, after))
        self._agree()

    def _merge(self, name: str, before: Slots, after: Slots) -> None:
        self.agents[name], conflict = merged(before, self.agents[name], after)
        assert has_conflict((self.work / name).read_bytes()) == conflict
        if conflict:
            folder(self.work, {name: text(self.agents[name])})

    def reopen(self) -> None:
        """Go on as a new process does."""
        self.history = History(self.run / HISTORY, self.work)
        place = FollowedFolder(self.folder, self.run, self.work, self.history, (), (), False)
        self.follower = Follower(place, lambda _: "")
        self.was_killed = True

    def _agree(self) -> None:
        if self.was_killed and self.taken:  # a change can be in the log twice, which changes nothing
            self.taken += self.taken[-1:] * (self.number - len(self.taken))
        assert self.number == len(self.taken)
        assert holds(self.work) == {name: text(slots).encode() for name, slots in self.agents.items()}
        assert holds(self.folder) == {name: text(slots).encode() for name, slots in self.mine.items()}

    def apply(self) -> None:
        brought = self._apply()
        refused = set()
        again = self.agents == self.common
        for name in NAMES:
            own, present = self.agents[name], self.mine[name]
            result, conflict = merged(self.common[name], own, present)
            # a file that the user restored counts as not applied
            restored = present == START[name] and (again or own != self.common[name])
            result = own if restored else result
            if not restored and (conflict or own == self.common[name]):
                refused |= {name} if conflict else set()
            elif name in brought.done.spared:  # it would revert the user's uncommitted work
                assert present not in (self.head[name], result)
                assert result == self.head[name]
            else:
                self.mine[name], self.common[name] = result, own
        assert set(brought.done.refused) == refused
        assert not brought.done.conflicts
        self._agree()

    def _apply(self) -> Brought:
        after = self.history.snapshot()
        self.history.write_patch(self.begun, after, self.run / PATCH)
        kept = Kept(str(self.folder), tuple(self.history.changed(self.begun, after)), after)
        (self.run / CHANGES).write_bytes(msgspec.json.encode(kept))
        return apply_run(self.run)

    def undo(self) -> None:
        """Continue in another run from an earlier moment, with all changes of the user that came after it."""
        if not self.moments:
            return
        parent, files, number = self.dice.choice(self.moments)
        self.agents = dict(files)
        self.follower.save()
        self._begin(f"run{len(list((self.root / 'runs').iterdir()))}", parent, files, number)
        self._look(working=False)
        for before, after in self.taken[number:]:
            for name in before:
                self.agents[name], _ = merged(before[name], self.agents[name], after[name])
        folder(self.work, {name: text(slots) for name, slots in self.agents.items()})
        self._agree()


def steps_of(scene: Scene) -> list[Callable[[], None]]:
    return [
        scene.agent_edits, scene.agent_edits, scene.user_edits, scene.user_edits, scene.user_formats,
        scene.user_restores, scene.user_commits, scene.user_switches_branch, scene.user_switches_branch,
        scene.request, scene.request, scene.step, scene.step, scene.apply, scene.apply, scene.undo,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_only_overlaps_are_blocked(tmp_path: Path, seed: int):
    dice = random.Random(seed)
    scene = Scene(tmp_path, dice)
    scene.request()
    steps = steps_of(scene)
    for _ in range(14):
        dice.choice(steps)()
    scene.request()
    scene.apply()


FILE_EVENTS = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
    "os.utime", "subprocess.Popen",
}  # fmt: skip


def killed_within(step: Callable[[], None], after: int) -> bool:
    """Do a step in a child process that dies by SIGKILL at its file operation number ``after``, or after the step."""
    child = os.fork()
    if child == 0:
        left = after

        def count(event: str, _: tuple[object, ...]) -> None:
            nonlocal left
            if event not in FILE_EVENTS:  # the kill itself is an event, too
                return
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            step()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_any_moment_loses_nothing(tmp_path: Path, seed: int):
    dice, moments = random.Random(seed), random.Random(seed + 1000)
    scene = Scene(tmp_path, dice)
    kills = 0
    steps = steps_of(scene)
    chosen = [scene.request, *(dice.choice(steps) for _ in range(14)), scene.request, scene.apply]
    for step in chosen:
        if step.__name__ in ("request", "step", "apply", "undo"):
            kills += killed_within(step, int(2 ** moments.uniform(0, 8)))
            scene.reopen()
        step()
    assert kills
